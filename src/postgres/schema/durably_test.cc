// What others are told is on disk by then, whatever the server's default is.
#include <gtest/gtest.h>

#include "core/event/batch.h"
#include "host/host.h"
#include "postgres/lane/parking.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"
#include "postgres/work/requests.h"

namespace dovetail::postgres {
namespace {

// A server without waits for the disk, and a table that records for each transaction, at its
// commit, whether that waits.
class Durably : public testing::Test {
 protected:
  void watch(const std::string& table) {
    must(connection_, "ALTER DATABASE " + database_.name + " SET synchronous_commit = off");
    must(connection_,
         "CREATE TABLE seen (waits text);"
         "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO "
         "public.seen SELECT current_setting('synchronous_commit'); RETURN NULL; END $$;"
         "CREATE CONSTRAINT TRIGGER see AFTER INSERT OR UPDATE ON " +
             table + " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION see()");
  }
  std::string seen() { return text(connection_, "SELECT string_agg(waits, ' ') FROM seen"); }

  TestDatabase database_;
  Connection connection_ = database_.connect();
};

TEST_F(Durably, AnEventIsParked) {
  watch("dovetail.parked");
  ASSERT_TRUE(ensure_relay(connection_, {.relay = "shop"}));
  Reader reader;
  reader.conninfo = database_.conninfo;
  reader.relay = "shop";
  ASSERT_TRUE(connect(reader));
  PostgresParking parking(reader);
  ASSERT_TRUE(parking.open());
  Event event;
  event.id = new_event_id();
  event.aggregate_type = "order";
  event.aggregate_id = "7";
  event.type = "placed";
  event.content_type = "text/plain";
  const ParkRequest request{.event = &event, .reason = "test"};
  const Status parked = parking.park({&request, 1});
  ASSERT_TRUE(parked) << text_of(parked);
  EXPECT_EQ(seen().substr(0, 2), "on");
  EXPECT_FALSE(contains(seen(), "off")) << seen();
}

TEST_F(Durably, ARequestIsTakenAndItsAnswerKept) {
  watch("dovetail.request");
  PostgresRequestStore store(database_.conninfo);
  ASSERT_TRUE(store.open());
  const RequestKey key{.scope = "shop", .key = "k"};
  const EventId token = new_event_id();
  RequestTerms terms;
  terms.lease = std::chrono::seconds(60);
  const Result<RequestTicket> ticket = store.begin(key, terms, token);
  ASSERT_TRUE(ticket) << text_of(ticket);
  ASSERT_EQ(seen(), "on");
  const Result<bool> kept = store.finish(key, token, StoredResponse{.status = 201});
  ASSERT_TRUE(kept) << text_of(kept);
  EXPECT_EQ(seen(), "on on");
}

}  // namespace
}  // namespace dovetail::postgres
