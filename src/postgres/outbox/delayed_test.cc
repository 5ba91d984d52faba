// Delayed events together with other features: a backlog limit, pages, lanes,
// retention.
#include "postgres/outbox/delayed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "host/host.h"
#include "postgres/operate/admin.h"
#include "postgres/operate/maintenance.h"
#include "postgres/outbox/source.h"
#include "postgres/testing/test_source.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

const std::string kOldId = "01890a5d-ac96-774b-bcce-b302099a8057";  // from the year 2023

class PostgresDelayed : public ::testing::Test {
 protected:
  void publish(int events) {
    must(sql_,
         "SELECT dovetail.publish('order', n::text, 'placed', 'now ' || n, content_type => "
         "'text/plain') FROM "
         "generate_series(1, " +
             std::to_string(events) + ") AS n");
  }
  // Due now.
  void publish_due(int events, const std::string& more = "") {
    must(sql_,
         "SELECT dovetail.publish('order', n::text, 'placed', 'due ' || n, content_type => "
         "'text/plain', deliver_at => "
         "clock_timestamp() + interval '1 h'" +
             more + ") FROM generate_series(1, " + std::to_string(events) + ") AS n");
    must(sql_, "UPDATE dovetail.delayed SET deliver_at = clock_timestamp() - interval '1 s'");
  }
  // That many events, and what comes with them; the wait is for broken code.
  Payloads read(std::size_t count, const std::string& relay = "test",
                std::size_t events_max = 1000) {
    Reader reader{database_.conninfo, relay};
    PostgresSource source(reader, system_clock());
    const Status opened = source.open();
    EXPECT_TRUE(opened) << text_of(opened);
    Payloads all;
    EXPECT_TRUE(eventually([&] {
      for (std::string& one : take_all(source, events_max)) all.push_back(std::move(one));
      return all.size() >= count;
    })) << all.size();
    return all;
  }

  TestDatabase database_;
  Connection sql_ = database_.connect();
};

TEST_F(PostgresDelayed, ALimitOnTheBacklogStopsNoRelay) {
  publish(3000);
  publish_due(1500);
  must(sql_, "SELECT dovetail.set_backlog_limit(10)");
  EXPECT_FALSE(sql_.query("SELECT dovetail.publish('order', '1', 'placed', '{}')"));
  // More than come at once, so they are paged.
  const Payloads all = read(4500, "test", 100);
  EXPECT_EQ(all.size(), 4500U);
  EXPECT_EQ(std::count(all.begin(), all.end(), "due 1500"), 1);
  EXPECT_TRUE(sql_.query("SELECT dovetail.publish('order', '1', 'placed', '{}')"));
}

TEST_F(PostgresDelayed, TheLimitBindsEveryPublisher) {
  ASSERT_TRUE(create_roles(sql_));
  const std::string role = "shop_" + database_.name;
  must(sql_, "CREATE ROLE " + role + " LOGIN; GRANT dovetail_app TO " + role);
  must(sql_, "SELECT dovetail.set_backlog_limit(2)");
  publish(2);
  {
    Connection app = database_.connect(role);
    must(app, "SET dovetail.releasing = 'on'");
    const auto refused = app.query("SELECT dovetail.publish('order', '1', 'placed', '{}')");
    EXPECT_TRUE(contains(text_of(refused), "the outbox is full")) << text_of(refused);
    EXPECT_FALSE(
        app.query("INSERT INTO dovetail.outbox (aggregate_type, type, payload) VALUES "
                  "('order', 'placed', 'x')"));
    EXPECT_FALSE(app.query("SELECT dovetail.release_events('{}')"));
    EXPECT_FALSE(app.query("SELECT dovetail.cancel_delayed(gen_random_uuid(), 'x')"));
  }
  const auto owner = sql_.query("SELECT dovetail.publish('order', '1', 'placed', '{}')");
  EXPECT_TRUE(contains(text_of(owner), "the outbox is full")) << text_of(owner);
  must(sql_, "DROP ROLE " + role);
}

TEST_F(PostgresDelayed, ALimitThatWasSetBeforeTheUpdateStopsNoRelayAfterIt) {
  EmptyDatabase old;
  Connection sql = old.connect();
  ASSERT_TRUE(create_schema(sql.get(), migrations().first(5)));
  must(sql, "SELECT dovetail.set_backlog_limit(2)");
  must(sql,
       "SELECT dovetail.publish('order', '1', 'placed', '1', deliver_at => "
       "clock_timestamp() + interval '1 h')");
  must(sql,
       "SELECT dovetail.publish('order', '1', 'placed', '2');"
       "SELECT nextval('dovetail.outbox_seq')");
  must(sql, "UPDATE dovetail.delayed SET deliver_at = clock_timestamp()");
  const Status updated = create_schema(sql);
  ASSERT_TRUE(updated) << text_of(updated);
  EXPECT_EQ(number(sql, "SELECT dovetail.release_delayed(10)"), 1);
}

TEST_F(PostgresDelayed, OneThatTheOutboxDoesNotTakeHoldsUpNoOther) {
  must(sql_, "ALTER TABLE dovetail.outbox ADD CONSTRAINT no_bad_ones CHECK (aggregate_id <> '2')");
  publish_due(3);
  publish(1);
  Payloads all = read(3);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Payloads{"due 1", "due 3", "now 1"}));
  const auto listed = list_events(database_.conninfo, {.state = EventState::delayed});
  ASSERT_TRUE(listed) << text_of(listed);
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().aggregate_id, "2");
  EXPECT_TRUE(contains(listed->front().delayed_because, "no_bad_ones"));
  EXPECT_GT(number(sql_, "SELECT count(*) FROM dovetail.delayed WHERE deliver_at > first_due"), 0);
  must(sql_, "ALTER TABLE dovetail.outbox DROP CONSTRAINT no_bad_ones");
  must(sql_, "UPDATE dovetail.delayed SET deliver_at = clock_timestamp()");
  EXPECT_EQ(read(1), Payloads{"due 2"});
}

TEST_F(PostgresDelayed, EveryLaneGetsThoseOfItsKeys) {
  publish_due(200);
  std::multiset<std::string> all;
  EXPECT_TRUE(eventually([&] {
    for (const std::uint32_t lane : {0U, 1U, 2U, 3U}) {
      Reader reader{database_.conninfo, "lanes", lane, 4};
      PostgresSource source(reader, system_clock());
      const Status opened = source.open();
      EXPECT_TRUE(opened) << text_of(opened);
      for (const std::string& one : take_all(source, 1000)) all.insert(one);
    }
    return all.size() >= 200;
  }));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 200U);
  EXPECT_EQ(all.size(), 200U);
}

TEST_F(PostgresDelayed, RetentionTakesNoneAwayThatARelayHasNotPassed) {
  (void)read(0);  // makes the relay known
  publish_due(1, ", id => '" + kOldId + "'");
  MaintenanceOptions options;
  options.events_older_than = std::chrono::hours(24);
  ASSERT_TRUE(maintain(database_.conninfo, options));
  EXPECT_EQ(number(sql_, "SELECT count(*) FROM dovetail.delayed"), 1) << "before it is let go";
  EXPECT_EQ(number(sql_, "SELECT dovetail.release_delayed(10)"), 1);
  must(sql_, "UPDATE dovetail.outbox SET created_at = '2023-07-01'");
  ASSERT_TRUE(maintain(database_.conninfo, options));
  EXPECT_EQ(read(1), Payloads{"due 1"}) << "its id is older than what is kept";
  ASSERT_TRUE(maintain(database_.conninfo, options));
  EXPECT_EQ(number(sql_, "SELECT count(*) FROM dovetail.outbox"), 0) << "everybody has passed it";
}

TEST_F(PostgresDelayed, ParkedEventsOutliveTheRetentionOfTheOutbox) {
  publish_due(1, ", id => '" + kOldId + "'");
  EXPECT_EQ(read(1), Payloads{"due 1"});
  must(sql_, "UPDATE dovetail.outbox SET created_at = '2023-07-01'");
  must(sql_,
       "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, "
       "aggregate_id, type, content_type, headers, payload, aggregate_version, created_at, "
       "state, at_head, attempts, reason, retry_at) SELECT 'test', id, seq, topic, "
       "aggregate_type, aggregate_id, type, content_type, headers, payload, "
       "aggregate_version, created_at, 'parked', true, 1, 'x', now() FROM dovetail.outbox");
  MaintenanceOptions options;
  options.events_older_than = options.parked_older_than = std::chrono::hours(1);
  ASSERT_TRUE(maintain(database_.conninfo, options));
  EXPECT_EQ(number(sql_, "SELECT count(*) FROM dovetail.outbox"), 0);
  const auto payload = payload_of(database_.conninfo, *EventId::parse(kOldId));
  EXPECT_TRUE(payload && *payload == "due 1") << text_of(payload);
}

TEST_F(PostgresDelayed, PagesOfTheListLeaveNoneOut) {
  must(sql_,
       "SELECT dovetail.publish('order', n::text, 'placed', '1', deliver_at => clock_timestamp() + "
       "(10 - n) * interval '1 day') FROM generate_series(1, 5) n");
  std::multiset<std::string> keys;
  EventFilter page{.state = EventState::delayed};
  page.limit = 2;
  for (int pages = 0; pages < 3; ++pages) {
    const auto listed = list_events(database_.conninfo, page);
    ASSERT_TRUE(listed && !listed->empty()) << text_of(listed);
    for (const EventRow& one : *listed) keys.insert(one.aggregate_id);
    page.after = listed->back().position;
  }
  EXPECT_EQ(keys, (std::multiset<std::string>{"1", "2", "3", "4", "5"}));
}

TEST_F(PostgresDelayed, IsShownAndCanBeCancelledWithAReason) {
  must(sql_, "SELECT dovetail.publish('order', 'k', 'placed', '1', id => '" + kOldId +
                 "', deliver_at => '2200-01-01Z')");
  const auto now = status(database_.conninfo);
  ASSERT_TRUE(now && now->delayed) << text_of(now);
  EXPECT_EQ(now->delayed->events, 1U);
  EXPECT_EQ(now->delayed->failing, 0U);
  const auto shown = list_events(database_.conninfo, {.id = kOldId});
  ASSERT_TRUE(shown && shown->size() == 1) << text_of(shown);
  EXPECT_EQ(shown->front().state, EventState::delayed);
  EXPECT_EQ(shown->front().deliver_at, now->delayed->next);
  const EventId id = *EventId::parse(kOldId);
  EXPECT_TRUE(failed_with(cancel_delayed(database_.conninfo, id, "  "), Errc::rejected));
  const Status cancelled = cancel_delayed(database_.conninfo, id, "order was cancelled");
  EXPECT_TRUE(cancelled) << text_of(cancelled);
  EXPECT_EQ(text(sql_, "SELECT what || ' ' || subject || ' ' || reason FROM dovetail.audit"),
            "cancel " + kOldId + " order was cancelled");
  EXPECT_FALSE(status(database_.conninfo)->delayed);
  const Status again = cancel_delayed(database_.conninfo, id, "again");
  EXPECT_TRUE(contains(text_of(again), "gone out already")) << text_of(again);
}

}  // namespace
}  // namespace dovetail::postgres
