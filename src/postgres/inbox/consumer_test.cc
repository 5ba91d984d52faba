#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>

#include "core/relay/source.h"
#include "dovetail/postgres_consumer.h"
#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"
#include "servers/standstill.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

Status record(Invocation& invocation, const Event& event) {
  return invocation.queue("INSERT INTO effect (key, payload) VALUES ($1, $2)",
                          {std::string(event.aggregate_id), std::string(event.payload)});
}

std::vector<NamedHandler> only(Handler handler) {
  std::vector<NamedHandler> handlers(1);
  handlers[0].each = std::move(handler);
  return handlers;
}

class PostgresConsumer : public testing::Test {
 protected:
  PostgresConsumer() : connection(database.connect()) {
    EXPECT_TRUE(create_schema(connection));
    must(connection,
         "CREATE TABLE effect (n bigint GENERATED ALWAYS AS IDENTITY, key text, payload text)");
    options.database = database.conninfo;
    options.name = "stock";
    options.retry_base = 1ms;
    options.retry_cap = 20ms;
    options.lease_term = 2s;
  }
  std::unique_ptr<Consumer> open(std::vector<NamedHandler> handlers) {
    auto consumer = Consumer::open(options, std::move(handlers));
    EXPECT_TRUE(consumer) << text_of(consumer);
    return consumer ? std::move(*consumer) : nullptr;
  }
  // Runs the consumer until the condition holds, then stops it cleanly.
  static void run_until(Consumer& consumer, const std::function<bool()>& holds) {
    std::jthread thread([&](std::stop_token stop) {
      const Status ended = consumer.run(stop);
      EXPECT_TRUE(ended) << text_of(ended);
    });
    EXPECT_TRUE(eventually(holds));
  }
  static void publish(Connection& to, const std::string& key, const std::string& payload) {
    must(to,
         "SELECT dovetail.publish('order', '" + key + "', 'placed', '\"" + payload + "\"'::text)");
  }
  void publish(const std::string& key, const std::string& payload) {
    publish(connection, key, payload);
  }
  std::int64_t effects() { return number(connection, "SELECT count(*) FROM effect"); }
  std::string payloads() {
    return text(connection, "SELECT string_agg(payload, '' ORDER BY n) FROM effect");
  }
  std::string others() {
    return text(connection,
                "SELECT coalesce(string_agg(payload, '' ORDER BY n), '') FROM effect WHERE key = "
                "'bad'");
  }
  std::int64_t parked() { return number(connection, "SELECT count(*) FROM dovetail.parked"); }

  TestDatabase database;
  Connection connection;
  ConsumerOptions options;
};

TEST_F(PostgresConsumer, AppliesEachEventOfItsOwnOutboxOnceInOrder) {
  for (int i = 0; i < 20; ++i) publish("k", std::to_string(i % 10));
  auto consumer = open(only(record));
  run_until(*consumer, [&] { return effects() == 20; });
  EXPECT_EQ(consumer->counts().applied, 20U);
  EXPECT_EQ(consumer->counts().duplicates, 0U);
  EXPECT_EQ(
      text(connection, "SELECT string_agg(trim('\"' FROM payload), '' ORDER BY n) FROM effect"),
      "01234567890123456789");
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.consumer_session WHERE NOT clean"),
            0);
}

// Handlers that take longer than the lease for a batch of events.
TEST_F(PostgresConsumer, ASlowHandlerCostsNoLeaseAndNothingIsAppliedTwice) {
  const servers::Standstill standstill;
  const bool is_long = std::getenv("DOVETAIL_CHAOS") != nullptr;
  const auto takes = is_long ? 50ms : 10ms;
  const int events = is_long ? 1000 : 200;
  options.lease_term = is_long ? 10s : 1s;
  options.batch_events_max = 500;
  must(connection,
       "SELECT dovetail.publish('order', (n % 10)::text, 'placed', '{}') FROM "
       "generate_series(1, " +
           std::to_string(events) + ") AS n");
  auto consumer = open(only([&](Invocation& invocation, const Event& event) {
    std::this_thread::sleep_for(takes);
    return record(invocation, event);
  }));
  run_until(*consumer, [&] {
    return number(connection,
                  "SELECT delivered_total FROM dovetail.relay_lane WHERE relay = 'stock'") ==
           events;
  });
  EXPECT_EQ(effects(), events);
  if (standstill.is_below(options.lease_term / 3)) {
    EXPECT_EQ(consumer->counts().duplicates, 0U);
    EXPECT_EQ(number(connection, "SELECT epoch FROM dovetail.relay_lane WHERE relay = 'stock'"), 1)
        << "the lease was never lost";
  }
  if (is_long)
    std::printf(
        "claim %s handler of 50 ms on PostgreSQL, batches of 500, lease of 10 s: %d events\n",
        HasFailure() ? "FAILED" : "ok    ", events);
}

TEST_F(PostgresConsumer, ReadsTheOutboxOfAnotherDatabaseAndKnowsWhatComesAgain) {
  TestDatabase shop;
  Connection orders = shop.connect();
  ASSERT_TRUE(create_schema(orders));
  options.from = shop.conninfo;
  for (int i = 0; i < 5; ++i) publish(orders, "k", "x");
  run_until(*open(only(record)), [&] { return effects() == 5; });
  must(orders, "DELETE FROM dovetail.relay_lane");  // as if all its progress were lost
  publish(orders, "k", "y");
  auto again = open(only(record));
  run_until(*again, [&] { return effects() == 6; });
  EXPECT_EQ(again->counts().applied, 1U);
  EXPECT_EQ(again->counts().duplicates, 5U);
}

TEST_F(PostgresConsumer, AFailingEventIsParkedWithItsReasonAndOtherKeysFlow) {
  publish("bad", "poison");
  publish("bad", "behind");
  publish("good", "fine");
  options.attempts_max = 2;
  std::atomic<bool> fixed = false;
  auto consumer = open(only([&](Invocation& invocation, const Event& event) -> Status {
    if (event.payload == "\"poison\"" && !fixed) throw std::runtime_error("no such product");
    return record(invocation, event);
  }));
  run_until(*consumer, [&] {
    publish("good", "fine");  // parked only if it fails while others pass
    return number(connection,
                  "SELECT count(*) FROM dovetail.parked WHERE state = 'parked' AND reason LIKE "
                  "'%no such product%'") == 1;
  });
  EXPECT_EQ(others(), "");
  fixed = true;
  must(connection, "UPDATE dovetail.parked SET state = 'waiting', retry_at = now()");
  run_until(*consumer, [&] { return others() == "\"poison\"\"behind\""; });
}

TEST_F(PostgresConsumer, AQueuedStatementThatFailsParksItsEventOnly) {
  must(connection, "ALTER TABLE effect ADD CHECK (payload <> '\"poison\"')");
  for (int i = 0; i < 10; ++i) publish(std::to_string(i), i == 4 ? "poison" : "fine");
  options.attempts_max = 2;
  auto consumer = open(only(record));
  run_until(*consumer, [&] {
    publish("5", "more");
    return number(connection, "SELECT count(*) FROM dovetail.parked WHERE state = 'parked'") == 1;
  });
  EXPECT_EQ(parked(), 1);
  EXPECT_EQ(number(connection, "SELECT count(*) FROM effect WHERE payload = '\"fine\"'"), 9);
  EXPECT_GE(consumer->counts().failed, 3U);
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.attempt"), 0);
}

TEST_F(PostgresConsumer, WhatIsNotNowCostsNoAttemptAndWhatIsNeverIsParkedAtOnce) {
  publish("later", "later");
  publish("never", "never");
  options.attempts_max = 2;
  std::atomic<int> tries = 0;
  auto consumer = open(only([&](Invocation& invocation, const Event& event) -> Status {
    if (event.payload == "\"never\"") return fail(Errc::rejected, "no such order");
    if (++tries < 10) return fail(Errc::unavailable, "the warehouse is closed");
    return record(invocation, event);
  }));
  run_until(*consumer, [&] { return effects() == 1 && parked() == 1; });
  EXPECT_EQ(payloads(), "\"later\"");
  EXPECT_EQ(consumer->counts().failed, 1U);
}

TEST_F(PostgresConsumer, SeveralConnectionsKeepTheOrderOfEachKey) {
  options.parallel = 4;
  options.batch_events_max = 10;
  must(connection,
       "SELECT dovetail.publish('order', (n % 20)::text, 'placed', n::text) FROM "
       "generate_series(1, 400) AS n");
  auto consumer = open(only(record));
  run_until(*consumer, [&] { return effects() == 400; });
  EXPECT_EQ(number(connection,
                   "SELECT count(*) FROM (SELECT payload::int < lag(payload::int) OVER "
                   "(PARTITION BY key ORDER BY n) AS wrong FROM effect) AS pairs WHERE wrong"),
            0);
  EXPECT_EQ(number(connection,
                   "SELECT count(*) FROM dovetail.consumer_session WHERE applied > 0 AND clean"),
            4);
}

TEST_F(PostgresConsumer, SeveralHandlersEachForTheTypesThatItWants) {
  must(connection,
       "SELECT dovetail.publish('order', '1', 'order.placed', '1'), "
       "dovetail.publish('order', '1', 'order.paid', '2'), "
       "dovetail.publish('order', '1', 'invoice.sent', '3')");
  const auto note = [](std::string who) {
    return [who](Invocation& invocation, const Event& event) {
      return invocation.queue("INSERT INTO effect (key, payload) VALUES ($1, $2)",
                              {who, std::string(event.payload)});
    };
  };
  std::vector<NamedHandler> handlers(2);
  handlers[0] = {.name = "orders", .types = {"order.*"}, .each = note("orders")};
  handlers[1] = {
      .name = "all",
      .batch = [&](Invocation& invocation, std::span<const Event* const> events) -> Status {
        for (const Event* event : events) DOVETAIL_TRY(note("all")(invocation, *event));
        return {};
      }};
  run_until(*open(handlers), [&] { return effects() == 5; });
  EXPECT_EQ(text(connection, "SELECT string_agg(key || payload, ' ' ORDER BY key, n) FROM effect"),
            "all1 all2 all3 orders1 orders2");
  EXPECT_EQ(text(connection, "SELECT string_agg(name, ' ' ORDER BY name) FROM dovetail.consumer"),
            "stock stock.all stock.orders");
}

TEST_F(PostgresConsumer, OnlyTheTopicsThatItWants) {
  must(connection,
       "SELECT dovetail.publish('order', '1', 'placed', '1'), "
       "dovetail.publish('invoice', '1', 'sent', '2')");
  options.topics = {"order.events"};
  auto consumer = open(only(record));
  run_until(*consumer, [&] {
    return number(connection, "SELECT delivered_total FROM dovetail.relay_lane") == 2;
  });
  EXPECT_EQ(payloads(), "1");
}

TEST_F(PostgresConsumer, RunsAgainAfterAStop) {
  auto consumer = Consumer::open(options, record);
  ASSERT_TRUE(consumer) << text_of(consumer);
  for (int round = 1; round <= 3; ++round) {
    publish("k", std::to_string(round));
    run_until(**consumer, [&] { return effects() == round; });
  }
  EXPECT_EQ((*consumer)->counts().applied, 3U);
}

TEST_F(PostgresConsumer, ASecondOneOfTheSameNameTakesOver) {
  auto first = open(only(record));
  auto second = open(only(record));
  publish("k", "1");
  std::jthread standby([&](std::stop_token stop) { EXPECT_TRUE(second->run(stop)); });
  run_until(*first, [&] { return effects() == 1; });
  publish("k", "2");
  EXPECT_TRUE(eventually([&] { return effects() == 2; }));
}

// Like a broker: returns the events of a list, and after open() those after the last settled one
// again.
class ListSource final : public Source {
 public:
  struct List {
    std::mutex mutex{};
    std::vector<EventId> ids{};
    std::size_t settled = 0;
    int opened = 0;
  };
  explicit ListSource(List& list) : list_(list) {}
  Status open() override {
    const std::lock_guard lock(list_.mutex);
    next_ = list_.settled;
    ++list_.opened;
    return {};
  }
  Status read(Batch& out, const Limits& limits, std::stop_token) override {
    const std::lock_guard lock(list_.mutex);
    for (std::size_t i = 0; i < limits.events_max && next_ < list_.ids.size(); ++i, ++next_) {
      Event event;
      event.id = list_.ids[next_];
      event.position = static_cast<std::int64_t>(next_) + 1;
      event.topic = "orders";
      event.aggregate_type = "order";
      const std::string key = std::to_string(next_ % 7);
      event.aggregate_id = key;
      event.type = "placed";
      event.content_type = "application/json";
      event.payload = "1";
      event.created_at = system_clock().wall();
      out.append(event);
    }
    return {};
  }
  Status settle(const Batch& batch, std::span<const Settled>) override {
    const std::lock_guard lock(list_.mutex);
    list_.settled += batch.size();
    return {};
  }
  Status flush() override { return {}; }

 private:
  List& list_;
  std::size_t next_ = 0;
};

TEST_F(PostgresConsumer, ReadsAnOriginWithItsLeaseAndCountsInItsOwnDatabase) {
  ListSource::List list;
  for (int i = 0; i < 100; ++i) list.ids.push_back(new_event_id());
  list.ids.push_back(list.ids.front());  // delivered twice
  options.origin.make = [&](Clock&, Duration) -> Result<std::unique_ptr<Source>> {
    return std::make_unique<ListSource>(list);
  };
  for (const std::uint32_t parallel : {1U, 3U}) {
    options.parallel = parallel;
    options.name = "stock" + std::to_string(parallel);
    list.settled = 0;
    must(connection, "TRUNCATE effect");
    auto consumer = open(only(record));
    run_until(*consumer, [&] {
      const std::lock_guard lock(list.mutex);
      return list.settled == list.ids.size();
    });
    EXPECT_EQ(effects(), 100);
    EXPECT_EQ(consumer->counts().applied, 100U);
    EXPECT_EQ(consumer->counts().duplicates, 1U);
    EXPECT_EQ(number(connection,
                     "SELECT delivered_total FROM dovetail.relay_lane WHERE source = 'broker' AND "
                     "relay = '" +
                         options.name + "' AND owner = ''"),
              101);
  }
  EXPECT_EQ(list.opened, 2);
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.consumer_session WHERE clean"), 4);
}

TEST_F(PostgresConsumer, WrongOptionsAreRefusedWithTheirReason) {
  const auto refused = [&](const std::function<void(ConsumerOptions&)>& change,
                           std::vector<NamedHandler> handlers = only(record)) {
    ConsumerOptions wrong = options;
    change(wrong);
    const auto consumer = Consumer::open(wrong, std::move(handlers));
    return failed_with(consumer, Errc::rejected) && contains(text_of(consumer), "; ");
  };
  const auto nothing = [](ConsumerOptions&) {};
  EXPECT_TRUE(refused([](auto& wrong) { wrong.name = ""; }));
  EXPECT_TRUE(refused([](auto& wrong) { wrong.name = "stock.eu"; }));
  EXPECT_TRUE(refused([](auto& wrong) { wrong.attempts_max = 0; }));
  EXPECT_TRUE(refused([](auto& wrong) { wrong.parallel = 0; }));
  EXPECT_TRUE(refused([](auto& wrong) { wrong.batch_events_max = 0; }));
  EXPECT_TRUE(refused([](auto& wrong) { wrong.lease_term = 1ms; }));
  EXPECT_TRUE(refused(nothing, {}));
  EXPECT_TRUE(refused(nothing, std::vector<NamedHandler>(1))) << "no function";
  std::vector<NamedHandler> two = only(record);
  two.push_back(two[0]);
  EXPECT_TRUE(refused(nothing, two)) << "two without a name";
  two[0].name = two[1].name = "a";
  EXPECT_TRUE(refused(nothing, two)) << "two of one name";
  two[1].name = "b.c";
  EXPECT_TRUE(refused(nothing, two));
  ConsumerOptions elsewhere = options;
  elsewhere.database += " port=1";
  EXPECT_TRUE(failed_with(Consumer::open(elsewhere, only(record)), Errc::unavailable));
}

}  // namespace
}  // namespace dovetail::postgres
