// Writers that keep transactions open at random, and relays that come and go: nothing is lost,
// invented or out of order. With other settings:
//   DOVETAIL_STRESS="writers=16 hold_ms=50 seed=7" proof_relay_late_commit_test
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "dovetail/postgres.h"
#include "host/host.h"
#include "kit/claims.h"
#include "postgres/lane/lanes.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

struct Settings {
  std::uint64_t writers = 8;
  std::uint64_t events = 4000;
  std::uint64_t relays = 3;
  std::uint64_t lanes = 4;
  std::uint64_t hold_ms = 200;
  std::uint64_t events_per_transaction = 16;
  std::uint64_t keys = 400;
  std::uint64_t seed = 1;
};

Settings settings() {
  Settings chosen;
  if (live::is_long())
    chosen = {.writers = 32,
              .events = 200'000,
              .relays = 4,
              .hold_ms = 500,
              .events_per_transaction = 64,
              .keys = 5000,
              .seed = 7};
  const std::map<std::string, std::uint64_t*> fields = {
      {"writers", &chosen.writers}, {"events", &chosen.events},
      {"relays", &chosen.relays},   {"lanes", &chosen.lanes},
      {"hold_ms", &chosen.hold_ms}, {"events_per_transaction", &chosen.events_per_transaction},
      {"keys", &chosen.keys},       {"seed", &chosen.seed}};
  const char* given = std::getenv("DOVETAIL_STRESS");
  std::istringstream words(given == nullptr ? "" : given);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const auto field = fields.find(word.substr(0, equals));
    EXPECT_TRUE(field != fields.end() && equals != std::string::npos) << word;
    if (field != fields.end()) *field->second = std::stoull(word.substr(equals + 1));
  }
  return chosen;
}

// All deliveries of all relays, in the order of time.
class Deliveries {
 public:
  struct One {
    EventId id;
    std::string key;
    std::int64_t version;
  };
  void add(Events events) {
    const std::lock_guard lock(mutex_);
    for (const Event* event : events) {
      if (seen_.insert(event->id).second) {
        first_.push_back({event->id, std::string(event->aggregate_id), event->aggregate_version});
      } else {
        ++repeated_;
      }
    }
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return first_.size();
  }
  const std::vector<One>& first() const { return first_; }
  std::uint64_t repeated() const { return repeated_; }

 private:
  mutable std::mutex mutex_;
  std::set<EventId> seen_;
  std::vector<One> first_;
  std::uint64_t repeated_ = 0;
};

class RecordingSink final : public Sink {
 public:
  explicit RecordingSink(Deliveries& deliveries) : deliveries_(deliveries) {}
  Status open() override {
    submitted_.clear();
    return {};
  }
  Status submit(Events events) override {
    deliveries_.add(events);
    submitted_.push_back(events.size());
    return {};
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration) override {
    if (submitted_.empty()) return false;
    submitted_.pop_front();
    for (Outcome& outcome : outcomes) outcome = Outcome{Fate::confirmed};
    return true;
  }
  bool keeps_order_on_failure() const override { return true; }

 private:
  Deliveries& deliveries_;
  std::deque<std::size_t> submitted_;
};

void pause(Random& random, std::uint64_t ms_max) {
  std::this_thread::sleep_for(std::chrono::microseconds(random.below(ms_max * 1000 + 1)));
}

// Changes accounts and publishes their new versions; some transactions roll back.
class Writer {
 public:
  Writer(const TestDatabase& database, const Settings& settings, std::uint64_t seed)
      : connection_(database.connect()), settings_(settings), random_(seed) {}

  // Returns how many events were committed.
  std::uint64_t transaction() {
    must(connection_, "BEGIN");
    if (random_.chance(0.5)) text(connection_, "SELECT pg_current_xact_id()::text");
    pause(random_, random_.chance(0.5) ? settings_.hold_ms : 2);
    std::set<std::uint64_t> keys;  // in order, so that writers do not deadlock
    const std::uint64_t wanted = 1 + random_.below(settings_.events_per_transaction);
    while (keys.size() < wanted) keys.insert(random_.below(settings_.keys));
    for (const std::uint64_t key : keys) change(key);
    pause(random_, random_.chance(0.5) ? settings_.hold_ms : 2);
    const bool kept = !random_.chance(0.1);
    must(connection_, kept ? "COMMIT" : "ROLLBACK");
    return kept ? keys.size() : 0;
  }

 private:
  void change(std::uint64_t key) {
    const Result<Rows> rows = connection_.query(
        "UPDATE account SET version = version + 1 WHERE key = $1 RETURNING version",
        Params().int8(static_cast<std::int64_t>(key)));
    ASSERT_TRUE(rows) << text_of(rows);
    const std::int64_t version = rows->int8(0, 0);
    if (random_.chance(0.1)) {
      must(connection_, "SAVEPOINT s");
      publish(key, -1);
      must(connection_, "ROLLBACK TO s");
    }
    publish(key, version);
  }
  void publish(std::uint64_t key, std::int64_t version) {
    const std::string name = std::to_string(key);
    NewEvent event;
    event.aggregate_type = "account";
    event.aggregate_id = name;
    event.type = "changed";
    event.payload = "{}";
    event.aggregate_version = version;
    const Result<EventId> id = dovetail::postgres::publish(connection_.get(), event);
    ASSERT_TRUE(id) << text_of(id);
  }

  Connection connection_;
  const Settings& settings_;
  Random random_;
};

// A relay process that stops and starts again, or loses its connections.
void come_and_go(const TestDatabase& database, const Settings& settings, Deliveries& deliveries,
                 std::uint64_t seed, std::stop_token stop) {
  Random random(seed);
  while (!stop.stop_requested()) {
    LanesOptions options;
    options.conninfo = database.conninfo + " application_name=relay";
    options.relay = "stress";
    options.owner = "relay " + std::to_string(seed);
    options.lanes = static_cast<std::uint32_t>(settings.lanes);
    options.lease_term = 1500ms;
    options.heartbeat = 50ms;
    options.relay_options.connect_retry = {5ms, 100ms};
    options.relay_options.batch_events_max = 50;
    Lanes lanes(std::move(options), system_clock(),
                [&](std::uint32_t) { return std::make_unique<RecordingSink>(deliveries); });
    std::jthread runner([&](std::stop_token leave) {
      const Status ended = lanes.run(leave);
      EXPECT_TRUE(ended) << text_of(ended);
    });
    const auto leave_at =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(500 + random.below(2000));
    while (!stop.stop_requested() && std::chrono::steady_clock::now() < leave_at)
      std::this_thread::sleep_for(5ms);
  }
}

void cut_connections(const TestDatabase& database, std::uint64_t seed, std::stop_token stop) {
  Connection connection = database.connect();
  Random random(seed);
  while (!stop.stop_requested()) {
    pause(random, 1500);
    must(connection,
         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
         "current_database() AND application_name = 'relay' AND random() < 0.3");
  }
}

void check(Connection& connection, const Settings& chosen, const Deliveries& deliveries) {
  const Result<Rows> rows = connection.query("SELECT id FROM dovetail.outbox");
  ASSERT_TRUE(rows) << text_of(rows);
  std::set<EventId> committed;
  for (std::size_t row = 0; row < rows->size(); ++row) committed.insert(rows->uuid(row, 0));
  std::set<EventId> delivered;
  std::map<std::string, std::int64_t> last;
  std::uint64_t inverted = 0;
  std::uint64_t phantom = 0;
  for (const Deliveries::One& one : deliveries.first()) {
    delivered.insert(one.id);
    if (!committed.contains(one.id)) ++phantom;
    if (one.version != last[one.key] + 1) ++inverted;
    last[one.key] = one.version;
  }
  std::uint64_t lost = 0;
  for (const EventId& id : committed) lost += delivered.contains(id) ? 0 : 1;
  live::claim(lost == 0 && phantom == 0 && inverted == 0,
              "late commits: %llu writers, transactions open up to %llu ms, %llu relays coming and "
              "going: %zu committed, %llu lost, %llu phantom, %llu inverted, %llu repeated",
              static_cast<unsigned long long>(chosen.writers),
              static_cast<unsigned long long>(chosen.hold_ms),
              static_cast<unsigned long long>(chosen.relays), committed.size(),
              static_cast<unsigned long long>(lost), static_cast<unsigned long long>(phantom),
              static_cast<unsigned long long>(inverted),
              static_cast<unsigned long long>(deliveries.repeated()));
}

TEST(PostgresLateCommit, NothingIsLostInventedOrOutOfOrderWhileRelaysComeAndGo) {
  const Settings chosen = settings();
  TestDatabase database;
  Connection owner = database.connect();
  ASSERT_TRUE(create_schema(owner));
  must(owner, "CREATE TABLE account (key bigint PRIMARY KEY, version bigint NOT NULL)");
  must(owner, "INSERT INTO account SELECT k, 0 FROM generate_series(0, " +
                  std::to_string(chosen.keys - 1) + ") AS k");
  Deliveries deliveries;
  std::atomic<std::uint64_t> committed{0};
  {
    std::vector<std::jthread> relays;
    for (std::uint64_t i = 0; i < chosen.relays; ++i)
      relays.emplace_back([&, i](std::stop_token stop) {
        come_and_go(database, chosen, deliveries, chosen.seed * 1000 + i, stop);
      });
    std::jthread cutter(
        [&](std::stop_token stop) { cut_connections(database, chosen.seed, stop); });
    {
      std::vector<std::jthread> writers;
      for (std::uint64_t i = 0; i < chosen.writers; ++i)
        writers.emplace_back([&, i] {
          Writer writer(database, chosen, chosen.seed * 2000 + i);
          while (committed < chosen.events) committed += writer.transaction();
        });
    }
    EXPECT_TRUE(eventually([&] { return deliveries.count() >= committed; }))
        << deliveries.count() << " of " << committed;
  }
  check(owner, chosen, deliveries);
}

}  // namespace
}  // namespace dovetail::postgres
