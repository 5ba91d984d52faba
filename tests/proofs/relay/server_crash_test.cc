// The server crashes behind a pooler that keeps its clients, and gives transaction numbers again
// that it had given but not put on disk. A relay that has seen them must not take the new
// transactions for old ones.
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <set>

#include "kit/claims.h"
#include "postgres/mapped/source.h"
#include "postgres/mapped/windows.h"
#include "postgres/outbox/source.h"
#include "postgres/testing/test_source.h"
#include "proofs/relay/running_relay.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::claim;

constexpr int kNumbers = 40;  // transaction numbers that are given twice
const std::string kPublish = "SELECT dovetail.publish('order', 'k', 'placed', '%')";

struct Folder {  // removed after its servers have stopped
  std::string path = ::testing::TempDir() + "dovetail_crash_" + std::to_string(getpid());
  ~Folder() { std::filesystem::remove_all(path); }
};

// The test's own server, and a pooler before it.
class Stage {
 public:
  Stage() {
    Connection admin = connect();
    // Otherwise the WAL writer would put transactions on disk that end without a commit.
    must(admin, "ALTER SYSTEM SET wal_writer_delay = '10s'");
    must(admin, "SELECT pg_reload_conf()");
  }

  std::string missing() const { return server_.server().missing + pooler_.server().missing; }
  Connection connect(const std::string& database = "postgres") const {
    Connection opened;
    EXPECT_TRUE(eventually([&] {
      Result<Connection> made =
          Connection::open(servers::with_database(server_.server().conninfo, database));
      if (made && made->query("SELECT 1")) opened = std::move(*made);
      return static_cast<bool>(opened);
    }));
    return opened;
  }
  std::string direct(const std::string& database) const {
    return servers::with_database(server_.server().conninfo, database);
  }
  std::string pooled(const std::string& database) const {
    return servers::with_database(pooler_.server().conninfo, database);
  }

  // Clients stay connected and wait.
  void pause() const { tell_pooler("PAUSE"); }
  void resume() const { tell_pooler("RESUME"); }

  // One server process dies, so the server ends all of them and recovers without a restart.
  void crash_inside() const {
    Connection victim = connect();
    Connection witness = connect();
    ::kill(static_cast<int>(number(victim, "SELECT pg_backend_pid()")), SIGKILL);
    ASSERT_TRUE(eventually([&] { return !witness.query("SELECT 1"); }));
  }
  void crash() { ASSERT_TRUE(server_.crash()); }

 private:
  void tell_pooler(const char* command) const {
    const std::string conninfo = pooled("pgbouncer");
    PGconn* const console = PQconnectdb(conninfo.c_str());
    PGresult* const done = PQexec(console, command);
    EXPECT_EQ(PQresultStatus(done), PGRES_COMMAND_OK) << PQerrorMessage(console);
    PQclear(done);
    PQfinish(console);
  }

  Folder state_{};
  servers::Started server_{"postgres", state_.path};
  servers::Started pooler_{"pgbouncer", state_.path};
};

class PostgresCrash : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { stage_ = std::make_unique<Stage>(); }
  static void TearDownTestSuite() { stage_.reset(); }
  void SetUp() override {
    ASSERT_EQ(stage_->missing(), "");
    static int count = 0;
    database_ = "crash_" + std::to_string(++count);
    Connection admin = stage_->connect();
    must(admin, "CREATE DATABASE " + database_);
    sql_ = stage_->connect(database_);
    const Status made = create_schema(sql_);
    ASSERT_TRUE(made) << text_of(made);
    reader_.conninfo = stage_->pooled(database_);
    reader_.relay = "test";
  }
  void TearDown() override {
    reader_.connection.close();
    Connection admin = stage_->connect();
    must(admin,
         "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT "
         "active AND database = '" +
             database_ + "'");
    must(admin, "DROP DATABASE " + database_ + " WITH (FORCE)");
  }

  void publish(int events, const std::string& how = kPublish) {
    for (int i = 0; i < events; ++i) {
      std::string one = how;
      one.replace(one.find('%'), 1, std::to_string(published_++));
      must(sql_, one);
    }
  }
  // Transactions that end without effect.
  void use_numbers() {
    std::string all;
    for (int i = 0; i < kNumbers; ++i) all += "BEGIN; SELECT pg_current_xact_id(); ROLLBACK; ";
    must(sql_, all);
  }
  std::int64_t next_number() {
    return number(sql_, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text");
  }
  // Clients of the pooler only notice a delay. `meanwhile`: commits before they look
  // again.
  void crash(bool inside, const std::function<void()>& meanwhile) {
    const std::int64_t before = next_number();
    stage_->pause();
    sql_.close();
    if (inside) {
      stage_->crash_inside();
    } else {
      stage_->crash();
    }
    sql_ = stage_->connect(database_);
    if (next_number() < before) ++reissued_;
    ++crashes_;
    meanwhile();
    stage_->resume();
  }

  // Reads until `enough` is true, or nothing came for `quiet_`. The session starts over when
  // necessary.
  std::set<std::string> read_all(
      Source& source, const std::function<bool(const std::set<std::string>&)>& enough = {}) {
    std::set<std::string> all;
    auto since = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() < since + quiet_ && !(enough && enough(all))) {
      Batch batch;
      const Status done = source.read(batch, {100, 1 << 20, 10ms}, {});
      if (!done) {
        EXPECT_EQ(done.error().code, Errc::unavailable) << done.error().text;
        ++restarts_;
        const Status opened = source.open();
        EXPECT_TRUE(opened) << text_of(opened);
      }
      if (!done || !batch.empty()) since = std::chrono::steady_clock::now();
      for (const Event& event : batch.events()) all.emplace(event.payload);
      (void)source.settle(batch, std::vector<Settled>(batch.size(), Settled::delivered));
      (void)source.flush();
    }
    return all;
  }
  // Repeats until numbers come twice. Returns how many events never came.
  int lost_by(Source& source, bool inside, const std::string& how) {
    int lost = 0;
    EXPECT_TRUE(source.open());
    for (int i = 0; i < (live::is_long() ? 20 : 1) || (reissued_ == 0 && i < 20); ++i) {
      publish(2, how);
      (void)read_all(source);
      use_numbers();
      (void)read_all(source);  // they have ended, as its memory knows
      const int first = published_;
      crash(inside, [&] { publish(kNumbers, how); });
      const auto missing = [&](const std::set<std::string>& came) {
        int count = 0;
        for (int n = first; n < published_; ++n) count += came.contains(std::to_string(n)) ? 0 : 1;
        return count;
      };
      lost += missing(read_all(source, [&](const auto& came) { return missing(came) == 0; }));
    }
    return lost;
  }
  // A whole relay, connected through the pooler only.
  void run_through(const std::string& name, ReadMode mode) {
    std::mutex mutex;
    std::set<std::string> came;
    LanesOptions options;
    options.conninfo = stage_->pooled(database_);
    options.replication_conninfo = stage_->direct(database_);
    options.relay = name;
    options.lanes = 1;
    options.reading.mode = mode;
    // Their writes would put on disk what must be lost.
    options.lease_term = options.heartbeat = 1min;
    live::RunningRelay relay(options, [&](Events events) {
      const std::lock_guard lock(mutex);
      for (const Event* event : events) came.emplace(event->payload);
    });
    const auto lost = [&] {
      const std::lock_guard lock(mutex);
      return published_ - static_cast<int>(came.size());
    };
    for (int i = 0; i < (live::is_long() ? 100 : 2); ++i) {
      publish(2);
      ASSERT_TRUE(eventually([&] { return lost() == 0; })) << lost() << "\n" << relay.log();
      use_numbers();
      std::this_thread::sleep_for(100ms);  // time for the relay to look at them
      crash(i % 4 != 3, [&] { publish(kNumbers); });
    }
    (void)eventually([&] { return lost() == 0; });
    claim(lost() == 0,
          "relay that %s: %d crashes behind a pooler, numbers came twice after %d, %d of %d events "
          "lost",
          name.c_str(), crashes_, reissued_, lost(), published_);
  }

  static std::unique_ptr<Stage> stage_;
  std::string database_;
  Connection sql_;
  Reader reader_;
  int published_ = 0;
  int crashes_ = 0;
  int reissued_ = 0;  // after so many crashes numbers came twice
  int restarts_ = 0;
  std::chrono::milliseconds quiet_{60};
};

std::unique_ptr<Stage> PostgresCrash::stage_;

TEST_F(PostgresCrash, NumbersThatAreGivenTwiceHideNoEvent) {
  PostgresSource source(reader_, system_clock());
  const int lost = lost_by(source, true, kPublish) + lost_by(source, false, kPublish);
  EXPECT_GE(restarts_, reissued_);
  claim(lost == 0 && reissued_ > 0,
        "windows: %d crashes behind a pooler, numbers came twice after %d, %d events lost",
        crashes_, reissued_, lost);
}

// Proves the test itself: with a mark that survives the crash, events are lost.
TEST_F(PostgresCrash, WithoutTheMarkEventsAreLost) {
  must(sql_, "ALTER TABLE dovetail.server_mark SET LOGGED");
  PostgresSource source(reader_, system_clock());
  EXPECT_GT(lost_by(source, true, kPublish), 0);
  EXPECT_GT(reissued_, 0);
}

TEST_F(PostgresCrash, HidesNoRowOfATableThatIsReadOutOfTheLog) {
  must(sql_, "CREATE TABLE orders_outbox (id serial PRIMARY KEY, who text, payload text)");
  TableMapping mapping;
  mapping.table = "orders_outbox";
  mapping.aggregate_id = "who";
  mapping.from_wal = true;
  quiet_ = 1500ms;  // it scans the whole table each time, with pauses
  MappedWindows windows(reader_, mapping, system_clock());
  const int lost =
      lost_by(windows, true, "INSERT INTO orders_outbox (who, payload) VALUES ('k', '%')");
  claim(lost == 0 && reissued_ > 0,
        "mapped table: %d crashes behind a pooler, numbers came twice after %d, %d rows lost",
        crashes_, reissued_, lost);
}

// Row numbers also come twice. What was read of a row that the crash has undone says nothing about
// the row with its number now.
TEST_F(PostgresCrash, MarksNoRowThatWasNeverSent) {
  must(sql_,
       "CREATE TABLE orders_outbox (id bigserial PRIMARY KEY, aggregate_type text DEFAULT "
       "'order', aggregate_id text DEFAULT 'k', type text DEFAULT 'placed', payload text, "
       "processed_at timestamptz)");
  TableMapping mapping;
  mapping.table = "orders_outbox";
  mapping.aggregate_id = "aggregate_id";
  mapping.pending = {*parse_pending("processed_at is null")};
  mapping.when_delivered = {*parse_assignment("processed_at = now()")};
  MappedSource source(reader_, mapping, system_clock());
  const Status opened = source.open();
  ASSERT_TRUE(opened) << text_of(opened);
  must(sql_, "INSERT INTO orders_outbox (id, payload) VALUES (1, 'undone')");
  Batch batch;
  ASSERT_TRUE(eventually([&] {
    EXPECT_TRUE(source.read(batch, {100, 1 << 20, 10ms}, {}));
    return !batch.empty();
  }));
  // Like after a crash when nobody waited for the disk.
  crash(true, [&] {
    must(sql_, "DELETE FROM orders_outbox");
    must(sql_, "INSERT INTO orders_outbox (id, payload) VALUES (1, 'kept')");
  });
  const Status settled =
      source.settle(batch, std::vector<Settled>(batch.size(), Settled::delivered));
  EXPECT_TRUE(failed_with(settled, Errc::unavailable)) << text_of(settled);
  ASSERT_TRUE(source.open());
  EXPECT_TRUE(read_all(source).contains("kept"));
}

TEST_F(PostgresCrash, RelayThatPollsBehindAPoolerDeliversEverything) {
  run_through("polls", ReadMode::poll);
}

TEST_F(PostgresCrash, RelayThatStreamsPastAPoolerDeliversEverything) {
  run_through("streams", ReadMode::automatic);
}

}  // namespace
}  // namespace dovetail::postgres
