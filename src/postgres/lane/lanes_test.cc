#include "postgres/lane/lanes.h"

#include <deque>
#include <mutex>
#include <set>

#include "host/host.h"
#include "host/test_processes.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class CountingSink final : public Sink {
 public:
  explicit CountingSink(std::atomic<std::uint64_t>& count) : count_(count) {}
  Status open() override {
    submitted_ = 0;
    return {};
  }
  Status submit(Events events) override {
    count_ += events.size();
    ++submitted_;
    return {};
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration) override {
    if (submitted_ == 0) return false;
    --submitted_;
    for (Outcome& outcome : outcomes) outcome = Outcome{Fate::confirmed};
    return true;
  }
  bool keeps_order_on_failure() const override { return true; }

 private:
  std::atomic<std::uint64_t>& count_;
  std::size_t submitted_ = 0;
};

// One relay process, in a thread.
class Process {
 public:
  Process(const TestDatabase& database, std::string owner, std::atomic<std::uint64_t>& count,
          std::optional<TableMapping> mapping = std::nullopt)
      : lanes_(options(database, std::move(owner), std::move(mapping)), system_clock(),
               [&count](std::uint32_t) { return std::make_unique<CountingSink>(count); }),
        thread_([this](std::stop_token stop) { ended_ = lanes_.run(stop); }) {}

  static LanesOptions options(const TestDatabase& database, std::string owner,
                              std::optional<TableMapping> mapping = std::nullopt) {
    LanesOptions options;
    options.conninfo = database.conninfo;
    options.relay = "test";
    options.owner = std::move(owner);
    options.lanes = 4;
    options.mapping = std::move(mapping);
    options.lease_term = 2s;
    options.heartbeat = 20ms;
    options.relay_options.gives_up = true;  // a daemon would wait for a fix instead
    return options;
  }
  std::size_t held() const { return lanes_.held().size(); }
  Status stop() {
    thread_.request_stop();
    thread_.join();
    return ended_;
  }

 private:
  Status ended_{};
  Lanes lanes_;
  std::jthread thread_;
};

class PostgresLanes : public testing::Test {
 protected:
  PostgresLanes() : connection_(database_.connect()) { EXPECT_TRUE(create_schema(connection_)); }
  void publish(int count) {
    must(connection_,
         "SELECT dovetail.publish('order', n::text, 'placed', '{}') FROM "
         "generate_series(1, " +
             std::to_string(count) + ") AS n");
  }
  std::int64_t leased() {
    return number(connection_, "SELECT count(*) FROM dovetail.relay_lane WHERE owner <> ''");
  }

  TestDatabase database_;
  Connection connection_;
  std::atomic<std::uint64_t> delivered_{0};
};

TEST_F(PostgresLanes, SharesAreEvenAndAddUp) {
  for (std::uint32_t lanes = 1; lanes <= 20; ++lanes)
    for (std::uint32_t processes = 1; processes <= 25; ++processes) {
      std::uint32_t sum = 0;
      for (std::uint32_t place = 0; place < processes; ++place) {
        const std::uint32_t share = fair_share(lanes, place, processes);
        EXPECT_LE(share, (lanes + processes - 1) / processes);
        sum += share;
      }
      EXPECT_EQ(sum, lanes);
    }
}

TEST_F(PostgresLanes, OneProcessTakesAllAndLetsGoOfAllWhenItStops) {
  publish(100);
  Process process(database_, "one", delivered_);
  EXPECT_TRUE(eventually([&] { return process.held() == 4 && delivered_ == 100; }))
      << process.held() << " lanes, " << delivered_ << " delivered";
  EXPECT_TRUE(process.stop());
  EXPECT_EQ(leased(), 0) << "the next one need not wait";
  EXPECT_EQ(number(connection_, "SELECT count(*) FROM dovetail.relay_process"), 0);
}

// Like a process that was killed a moment ago.
TEST_F(PostgresLanes, TheLanesOfAProcessThatIsProvablyGoneAreTakenAtOnce) {
  ASSERT_TRUE(ensure_relay(connection_, {.relay = "test", .lanes = 4}));
  const auto held_by = [&](const std::string& owner) {
    must(connection_, "UPDATE dovetail.relay_lane SET owner = '" + owner +
                          "', epoch = 7, expires = clock_timestamp() + interval '1 hour'; "
                          "TRUNCATE dovetail.relay_process; INSERT INTO dovetail.relay_process "
                          "VALUES ('test', '" +
                          owner + "', clock_timestamp() + interval '1 hour')");
  };
  publish(20);
  held_by(owner_text(dead_process()));
  Process process(database_, "next", delivered_);
  EXPECT_TRUE(eventually([&] { return process.held() == 4 && delivered_ == 20; }))
      << process.held() << " lanes, " << delivered_ << " delivered";
  EXPECT_TRUE(process.stop());
}

TEST_F(PostgresLanes, WhereItCannotBeProvedItIsSaidWhoIsAwaitedAndUntilWhen) {
  ASSERT_TRUE(ensure_relay(connection_, {.relay = "test", .lanes = 4}));
  ProcessIdentity elsewhere = dead_process();
  elsewhere.namespaces = "pid:[1]";
  must(connection_, "UPDATE dovetail.relay_lane SET owner = '" + owner_text(elsewhere) +
                        "', expires = clock_timestamp() + interval '1 hour'");
  LanesOptions options = Process::options(database_, "next");
  options.lease_term = 1h;
  std::mutex mutex;
  std::string said;
  options.notify = [&](std::int32_t, const RelayNotice& notice) {
    const std::lock_guard lock(mutex);
    said += std::string(to_string(notice.kind)) + ": " + notice.text + "\n";
  };
  Lanes lanes(options, system_clock(),
              [&](std::uint32_t) { return std::make_unique<CountingSink>(delivered_); });
  std::jthread thread([&](std::stop_token stop) { EXPECT_TRUE(lanes.run(stop)); });
  const auto says = [&](std::string_view part) {
    const std::lock_guard lock(mutex);
    return said.find(part) != std::string::npos;
  };
  EXPECT_TRUE(eventually([&] { return says("standby: lane 0"); }));
  EXPECT_TRUE(says("held by dead:"));
  EXPECT_TRUE(says("for another 3600 s") || says("for another 3599 s"));
  EXPECT_TRUE(lanes.held().empty());
}

TEST_F(PostgresLanes, ProcessesThatComeAndGoShareEvenly) {
  Process first(database_, "first", delivered_);
  EXPECT_TRUE(eventually([&] { return first.held() == 4; }));
  {
    Process second(database_, "second", delivered_);
    EXPECT_TRUE(eventually([&] { return first.held() == 2 && second.held() == 2; }))
        << first.held() << " and " << second.held();
    publish(200);
    EXPECT_TRUE(eventually([&] { return delivered_ == 200; })) << delivered_;
    EXPECT_TRUE(second.stop());
  }
  EXPECT_TRUE(eventually([&] { return first.held() == 4; }));
  publish(50);
  EXPECT_TRUE(eventually([&] { return delivered_ == 250; })) << delivered_;
  EXPECT_TRUE(first.stop());
}

TEST_F(PostgresLanes, AnOrderBindsEveryProcessAlsoOneThatStartsLater) {
  publish(20);
  Process first(database_, "first", delivered_);
  Process second(database_, "second", delivered_);
  ASSERT_TRUE(eventually([&] { return first.held() + second.held() == 4 && delivered_ == 20; }));
  must(connection_, "SELECT dovetail.hold_relay('test', 'paused', 'the broker moves')");
  ASSERT_TRUE(eventually([&] { return leased() == 0; }));
  EXPECT_TRUE(second.stop());
  Process third(database_, "third", delivered_);
  publish(20);
  // Both look for lanes; a look that took one would show here.
  ASSERT_TRUE(eventually([&] {
    return number(connection_,
                  "SELECT count(*) FROM dovetail.relay_process WHERE expires > "
                  "clock_timestamp()") == 2;
  }));
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(leased(), 0);
  EXPECT_EQ(delivered_, 20U);
  EXPECT_EQ(text(connection_, "SELECT string_agg(DISTINCT state, ',') FROM dovetail.lag"),
            "paused");

  must(connection_, "SELECT dovetail.hold_relay('test', 'draining', 'empty it')");
  ASSERT_TRUE(eventually([&] {
    return number(connection_, "SELECT count(*) FROM dovetail.relay_lane WHERE hold = 'drained'") ==
           4;
  })) << "nothing is in flight";
  EXPECT_EQ(delivered_, 20U) << "and nothing new is read";

  must(connection_, "SELECT dovetail.hold_relay('test', '', 'it has moved')");
  EXPECT_TRUE(eventually([&] { return delivered_ == 40; })) << delivered_;
  EXPECT_TRUE(first.stop());
  EXPECT_TRUE(third.stop());
}

// A paused relay must not fill the disk of the server.
TEST_F(PostgresLanes, TheSlotOfAPausedRelayIsGivenUpAboveItsBound) {
  LanesOptions options = Process::options(database_, "one");
  options.lanes = 1;
  options.reading.mode = ReadMode::wal;
  const auto slots = [&] {
    return number(connection_,
                  "SELECT count(*) FROM pg_replication_slots WHERE database = "
                  "current_database() AND NOT temporary");
  };
  const auto make_sink = [&](std::uint32_t) { return std::make_unique<CountingSink>(delivered_); };
  publish(3);
  {
    Lanes lanes(options, system_clock(), make_sink);
    std::jthread thread([&](std::stop_token stop) { EXPECT_TRUE(lanes.run(stop)); });
    ASSERT_TRUE(eventually([&] { return slots() == 1 && delivered_ == 3; }));
    must(connection_, "SELECT dovetail.hold_relay('test', 'paused', 'the broker moves')");
    ASSERT_TRUE(eventually([&] { return leased() == 0; }));
    EXPECT_EQ(slots(), 1) << "it keeps little";
  }
  publish(3);
  options.reading.retained_wal_max = 1;
  Lanes lanes(options, system_clock(), make_sink);
  std::jthread thread([&](std::stop_token stop) { EXPECT_TRUE(lanes.run(stop)); });
  EXPECT_TRUE(eventually([&] { return slots() == 0; }));
}

TEST_F(PostgresLanes, TheLanesOfADeadProcessAreTakenOver) {
  {
    Result<Connection> connection = Connection::open(database_.conninfo);
    ASSERT_TRUE(connection);
    ASSERT_TRUE(ensure_relay(*connection, {.relay = "test", .lanes = 4}));
  }
  // Like a process that was killed a moment ago.
  must(connection_,
       "UPDATE dovetail.relay_lane SET owner = 'dead', epoch = 7, "
       "expires = clock_timestamp() + interval '1 s';"
       "INSERT INTO dovetail.relay_process VALUES ('test', 'dead', "
       "clock_timestamp() + interval '1 s')");
  publish(100);
  const auto start = std::chrono::steady_clock::now();
  Process process(database_, "living", delivered_);
  EXPECT_TRUE(eventually([&] { return process.held() == 4 && delivered_ == 100; }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  EXPECT_EQ(number(connection_, "SELECT min(epoch) FROM dovetail.relay_lane"), 8);
  EXPECT_TRUE(process.stop());
}

// The database's clock was set back by two days since the process died.
TEST_F(PostgresLanes, TheLanesOfASilentProcessAreTakenOverThoughTheClockWasSetBack) {
  ASSERT_TRUE(ensure_relay(connection_, {.relay = "test", .lanes = 4}));
  must(connection_,
       "UPDATE dovetail.relay_lane SET owner = 'dead', epoch = 7, lease_term = 2000000, "
       "expires = clock_timestamp() + interval '48 h';"
       "INSERT INTO dovetail.relay_process VALUES ('test', 'dead', "
       "clock_timestamp() + interval '48 h')");
  publish(20);
  Process process(database_, "living", delivered_);
  EXPECT_TRUE(eventually([&] { return process.held() == 4 && delivered_ == 20; }))
      << process.held() << " lanes, " << delivered_ << " delivered";
  EXPECT_EQ(number(connection_, "SELECT min(epoch) FROM dovetail.relay_lane"), 8);
  EXPECT_TRUE(process.stop());
}

TEST_F(PostgresLanes, TheNumberOfLanesChosenFirstHolds) {
  {
    Result<Connection> connection = Connection::open(database_.conninfo);
    ASSERT_TRUE(ensure_relay(*connection, {.relay = "test", .lanes = 2}));
  }
  Process process(database_, "one", delivered_);
  EXPECT_TRUE(eventually([&] { return process.held() == 2; }));
  EXPECT_TRUE(process.stop());
}

TEST_F(PostgresLanes, AMissingSchemaEndsTheRunWithAWordAboutIt) {
  must(connection_, "DROP SCHEMA dovetail CASCADE");
  Lanes lanes(Process::options(database_, "one"), system_clock(),
              [&](std::uint32_t) { return std::make_unique<CountingSink>(delivered_); });
  const Status ended = lanes.run({});
  EXPECT_TRUE(failed_with(ended, Errc::rejected));
  EXPECT_TRUE(contains(text_of(ended), "dovetail init")) << text_of(ended);
}

TEST_F(PostgresLanes, LanesOfATableThatExistsAreSharedAndTakenOver) {
  must(connection_,
       "CREATE TABLE outbox_events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_type "
       "text, payload text, sent_at timestamptz)");
  const auto publish_rows = [&] {
    must(connection_,
         "INSERT INTO outbox_events (event_type, payload) SELECT 'placed', n FROM "
         "generate_series(1, 200) AS n");
  };
  const TableMapping mapping = *mapping_preset("sent_at");
  publish_rows();
  Process first(database_, "first", delivered_, mapping);
  Process second(database_, "second", delivered_, mapping);
  EXPECT_TRUE(eventually([&] { return first.held() == 2 && second.held() == 2; }));
  publish_rows();
  EXPECT_TRUE(eventually([&] { return delivered_ == 400; })) << delivered_;
  EXPECT_TRUE(first.stop());
  publish_rows();
  EXPECT_TRUE(eventually([&] { return second.held() == 4 && delivered_ == 600; })) << delivered_;
  EXPECT_TRUE(second.stop());
  EXPECT_EQ(number(connection_, "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL"), 0);
}

TEST_F(PostgresLanes, ATableThatDoesNotFitEndsTheRunBeforeAnythingIsWritten) {
  LanesOptions options = Process::options(database_, "one");
  options.mapping = *mapping_preset("sent_at");
  Lanes lanes(options, system_clock(),
              [&](std::uint32_t) { return std::make_unique<CountingSink>(delivered_); });
  const Status ended = lanes.run({});
  EXPECT_TRUE(failed_with(ended, Errc::rejected));
  EXPECT_TRUE(contains(text_of(ended), "outbox_events")) << text_of(ended);
  EXPECT_EQ(number(connection_, "SELECT count(*) FROM dovetail.relay_lane"), 0);
}

TEST_F(PostgresLanes, ARelayOfATableDoesNotReadTheOutbox) {
  ASSERT_TRUE(
      ensure_relay(connection_, {.relay = "test", .source = SourceKind::mapped, .lanes = 4}));
  Lanes lanes(Process::options(database_, "one"), system_clock(),
              [&](std::uint32_t) { return std::make_unique<CountingSink>(delivered_); });
  const Status ended = lanes.run({});
  EXPECT_TRUE(failed_with(ended, Errc::rejected));
  EXPECT_TRUE(contains(text_of(ended), "another name")) << text_of(ended);
}

TEST_F(PostgresLanes, TheRolesOfRelayAndApplicationAreEnough) {
  ASSERT_TRUE(create_roles(connection_));
  const std::string app = database_.name + "_app";
  const std::string relay = database_.name + "_relay";
  must(connection_, "CREATE ROLE " + app + " LOGIN; GRANT dovetail_app TO " + app +
                        "; CREATE ROLE " + relay + " LOGIN; GRANT dovetail_relay TO " + relay);
  {
    LanesOptions options = Process::options(database_, "one");
    options.conninfo += " user=" + relay;
    Lanes lanes(std::move(options), system_clock(),
                [&](std::uint32_t) { return std::make_unique<CountingSink>(delivered_); });
    Status ended;
    std::jthread thread([&](std::stop_token stop) { ended = lanes.run(stop); });
    Connection publisher = database_.connect(app);
    must(publisher,
         "SELECT dovetail.publish('order', n::text, 'placed', '{}') FROM "
         "generate_series(1, 3000) AS n");
    must(publisher,
         "SELECT dovetail.publish('order', '1', 'placed', '{}', deliver_at => "
         "clock_timestamp() + interval '50 ms')");
    EXPECT_TRUE(eventually([&] { return delivered_ == 3001; })) << delivered_;
    thread.request_stop();
    thread.join();
    EXPECT_TRUE(ended) << text_of(ended);
  }
  must(connection_, "DROP ROLE " + app + ", " + relay);
}

// First the schema is extended, then relays are replaced one by one, and only a later version
// removes what older relays needed.
TEST_F(PostgresLanes, AnOlderRelayGoesOnBesideANewerSchemaUntilThatLeavesItBehind) {
  std::vector<Migration> steps(migrations().begin(), migrations().end());
  const std::int64_t next = kSchemaVersion + 1;
  const std::string expand =
      "ALTER TABLE dovetail.outbox ADD COLUMN trace text; UPDATE dovetail.schema_version SET "
      "version = " +
      std::to_string(next);
  const std::string contract =
      "UPDATE dovetail.schema_version SET version = " + std::to_string(next + 1) +
      ", compatible_from = " + std::to_string(next);
  const auto lose_connections = [&] {
    must(connection_,
         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
         "current_database() AND pid <> pg_backend_pid()");
  };
  Process first(database_, "first", delivered_);
  ASSERT_TRUE(eventually([&] { return first.held() == 4; }));
  EXPECT_TRUE(failed_with(check_schema(connection_, next), Errc::rejected)) << "not yet";

  steps.push_back({next, expand});
  const Status expanded = create_schema(connection_.get(), steps);
  ASSERT_TRUE(expanded) << text_of(expanded);
  EXPECT_EQ(check_schema(connection_, next).value_or(0), next);
  EXPECT_EQ(check_schema(connection_).value_or(0), next) << "the older program may go on";
  EXPECT_TRUE(create_schema(connection_)) << "and finds nothing to do";
  lose_connections();
  Process second(database_, "second", delivered_);
  publish(100);
  EXPECT_TRUE(
      eventually([&] { return delivered_ >= 100 && first.held() == 2 && second.held() == 2; }));
  const auto pending = [&] {
    return number(connection_, "SELECT count(*) FROM dovetail.events WHERE state = 'pending'");
  };
  EXPECT_TRUE(eventually([&] { return pending() == 0; }));

  steps.push_back({next + 1, contract});
  ASSERT_TRUE(create_schema(connection_.get(), steps));
  EXPECT_EQ(check_schema(connection_, next).value_or(0), next + 1);
  lose_connections();
  EXPECT_TRUE(eventually([&] { return first.held() == 0 && second.held() == 0; }));
  for (Process* process : {&first, &second}) {
    const Status ended = process->stop();
    EXPECT_TRUE(failed_with(ended, Errc::corrupt) && contains(text_of(ended), "upgrade dovetail"))
        << text_of(ended);
  }
  publish(10);
  EXPECT_EQ(pending(), 10);
}

class Notices {
 public:
  void add(const RelayNotice& notice) {
    const std::lock_guard lock(mutex_);
    all_ += std::string(to_string(notice.kind)) + " " + notice.text + "\n";
  }
  std::string all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::string all_;
};

TEST_F(PostgresLanes, OneLaneReadsTheLogAndSaysSo) {
  Notices notices;
  LanesOptions options = Process::options(database_, "one");
  options.lanes = 1;
  options.notify = [&](std::int32_t, const RelayNotice& notice) { notices.add(notice); };
  Lanes lanes(options, system_clock(),
              [&](std::uint32_t) { return std::make_unique<CountingSink>(delivered_); });
  std::jthread thread([&](std::stop_token stop) { EXPECT_TRUE(lanes.run(stop)); });
  EXPECT_TRUE(eventually([&] { return lanes.metrics().streams == 1; })) << notices.all();
  publish(50);
  EXPECT_TRUE(eventually([&] { return delivered_ == 50; }));
  EXPECT_TRUE(contains(notices.all(), "source_changed reads the WAL through the slot"))
      << notices.all();
  EXPECT_EQ(number(connection_, "SELECT count(*) FROM dovetail.relay_lane WHERE reads_wal"), 1);
}

TEST_F(PostgresLanes, SeveralLanesReadTheTableAndSayWhy) {
  Notices notices;
  LanesOptions options = Process::options(database_, "one");
  options.notify = [&](std::int32_t, const RelayNotice& notice) { notices.add(notice); };
  const auto sink = [&](std::uint32_t) { return std::make_unique<CountingSink>(delivered_); };
  {
    Lanes lanes(options, system_clock(), sink);
    std::jthread thread([&](std::stop_token stop) { EXPECT_TRUE(lanes.run(stop)); });
    publish(20);
    EXPECT_TRUE(eventually([&] { return delivered_ == 20; }));
    EXPECT_TRUE(
        contains(notices.all(), "source_changed reads the table: relay \"test\" has 4 lanes"))
        << notices.all();
  }
  options.reading.mode = ReadMode::wal;
  EXPECT_TRUE(failed_with(Lanes(options, system_clock(), sink).run({}), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::postgres
