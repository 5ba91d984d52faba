#include "postgres/lane/parking.h"

#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

class PostgresParkedEvents : public ::testing::Test {
 protected:
  PostgresParkedEvents() {
    EXPECT_TRUE(create_schema(application));
    const Status opened = parking.open();
    EXPECT_TRUE(opened) << text_of(opened);
  }
  static Event make(const EventId& id, std::int64_t position, std::string_view payload) {
    Event event;
    event.id = id;
    event.position = position;
    event.aggregate_type = "order";
    event.aggregate_id = "1";
    event.type = "placed";
    event.payload = payload;
    return event;
  }
  void park(std::initializer_list<Event> events, ParkState state = ParkState::waiting) {
    std::vector<ParkRequest> requests;
    for (const Event& event : events) requests.push_back({&event, state, 1, {}, "because"});
    const Status parked = parking.park(requests);
    ASSERT_TRUE(parked) << text_of(parked);
  }
  std::string kept() {
    return text(application,
                "SELECT string_agg(convert_from(payload, 'UTF8') || ' ' || state, ', ' ORDER BY "
                "number) FROM dovetail.parked");
  }

  TestDatabase database;
  Connection application = database.connect();
  Reader reader{database.conninfo, "relay"};
  PostgresParking parking{reader};
  const EventId id = new_event_id();
};

TEST_F(PostgresParkedEvents, EventThatIsReadAgainIsKeptOnce) {
  park({make(id, 1, "one")});
  park({make(id, 1, "one"), make(id, 1, "one")}, ParkState::parked);
  park({make(id, 1, "one")});
  EXPECT_EQ(kept(), "one parked");
}

TEST_F(PostgresParkedEvents, TwoEventsUnderOneIdAreBothKept) {
  park({make(id, 1, "one")});
  park({make(id, 2, "two")});
  park({make(id, 2, "two"), make(id, 3, "three")});
  EXPECT_EQ(kept(), "one waiting, two parked, three parked");
  EXPECT_EQ(number(application,
                   "SELECT count(*) FROM dovetail.parked WHERE reason LIKE '%used twice%' AND "
                   "strpos(reason, '" +
                       id.to_string() + "') > 0"),
            2);
  // They stand one behind the other, and each goes out for itself.
  Batch batch;
  std::vector<std::uint32_t> attempts;
  ASSERT_TRUE(parking.take_due(batch, attempts, {}));
  ASSERT_EQ(batch.size(), 1u);
  ASSERT_TRUE(parking.delivered({&batch.events()[0].id, 1}));
  EXPECT_EQ(kept(), "one delivered, two parked, three parked");
}

TEST_F(PostgresParkedEvents, EventUnderTheIdOfADiscardedOneIsKept) {
  park({make(id, 1, "one")});
  must(application, "UPDATE dovetail.parked SET state = 'discarded', finished_at = now()");
  park({make(id, 1, "one")});
  EXPECT_EQ(kept(), "one discarded");
  park({make(id, 2, "two")});
  EXPECT_EQ(kept(), "one discarded, two parked");
}

TEST_F(PostgresParkedEvents, TwoEventsUnderOneIdInOneCallAreBothKept) {
  park({make(id, 1, "one"), make(id, 2, "two"), make(id, 1, "one")});
  EXPECT_EQ(kept(), "one waiting, two parked");
}

}  // namespace
}  // namespace dovetail::postgres
