#include "dovetail/pqxx.h"

#include <pqxx/pqxx>

#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

template <class T>
concept CanPublish =
    requires(T& target, const NewEvent& event) { dovetail::postgres::publish(target, event); };
static_assert(CanPublish<pqxx::work>);
static_assert(CanPublish<pqxx::transaction_base>);
static_assert(!CanPublish<pqxx::connection>, "an event needs a transaction");

TEST(PostgresPqxx, AnEventCommitsWithTheTransaction) {
  TestDatabase database;
  Connection owner = database.connect();
  ASSERT_TRUE(create_schema(owner));
  pqxx::connection connection(database.conninfo);
  const std::string payload("a\0\xff", 3);
  const std::vector<Header> headers = {{"trace", "1"}};
  NewEvent event;
  event.aggregate_type = "order";
  event.aggregate_id = "17";
  event.type = "placed";
  event.payload = payload;
  event.headers = headers;
  event.id = EventId{{1, 2, 3}};
  {
    pqxx::work rolled_back(connection);
    EXPECT_TRUE(dovetail::postgres::publish(rolled_back, event));
  }
  EXPECT_EQ(number(owner, "SELECT count(*) FROM dovetail.outbox"), 0);
  {
    pqxx::work transaction(connection);
    const Result<EventId> id = dovetail::postgres::publish(transaction, event);
    ASSERT_TRUE(id) << text_of(id);
    EXPECT_EQ(*id, *event.id);
    EXPECT_TRUE(dovetail::postgres::publish(transaction, event)) << "the same again";
    event.payload = "";
    EXPECT_TRUE(failed_with(dovetail::postgres::publish(transaction, event), Errc::rejected));
    transaction.commit();
  }
  EXPECT_EQ(text(owner, "SELECT payload FROM dovetail.outbox"), payload);
}

}  // namespace
}  // namespace dovetail::postgres
