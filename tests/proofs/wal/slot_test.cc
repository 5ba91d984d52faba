// Whatever happens to the relay's slot and connection: nothing is lost, the relay returns to the
// WAL by itself, and each change is reported.
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <algorithm>

#include "kit/claims.h"
#include "postgres/doctor/doctor.h"
#include "proofs/wal/server_stage.h"
#include "servers/standstill.h"
#include "servers/tcp_proxy.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::Broker;
using live::claim;
using live::how;
using live::modes;
using live::said;
using live::WalStage;

// What doctor reports under one code, for a relay with a lasting slot.
std::string finding(const WalStage& stage, std::string_view code) {
  DoctorOptions options;
  options.wal_readers = {{.relay = "shop", .reading = {.mode = ReadMode::wal}}};
  const auto found = examine(stage.conninfo, options, system_clock());
  EXPECT_TRUE(found) << text_of(found);
  if (!found) return {};
  const auto one = std::find_if(found->begin(), found->end(),
                                [&](const Finding& each) { return each.code == code; });
  if (one == found->end()) return {};
  return std::string(to_string(one->severity)) + ": " + one->what + " -> " + one->what_to_do;
}

// For the primary, this is a standby.
OwnedConnection receive_log(const WalStage& stage) {
  Result<OwnedConnection> opened = connect_to(stage.conninfo, "true");
  EXPECT_TRUE(opened) << text_of(opened);
  if (!opened) return nullptr;
  EXPECT_EQ(PQsetnonblocking(opened->get(), 0), 0);
  const Rows identity(PQexec(opened->get(), "IDENTIFY_SYSTEM"));
  const std::string from = PQgetvalue(identity.get(), 0, 2);
  const Rows started(PQexec(opened->get(), ("START_REPLICATION PHYSICAL " + from).c_str()));
  EXPECT_EQ(PQresultStatus(started.get()), PGRES_COPY_BOTH) << PQerrorMessage(opened->get());
  return std::move(*opened);
}

// One server for all of them, with a database for each.
class WalSlots : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<live::OwnServer>("wal_slots"); }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override { ASSERT_TRUE(server_->is_there()) << server_->missing(); }

  // Streams, with writers beside it.
  static void start(WalStage& stage, LanesOptions options) {
    stage.start_relay(std::move(options));
    ASSERT_TRUE(stage.wait_for_stream());
    stage.start_writers(50, 1ms);
    stage.let_write(50);
  }
  static void end_sender(WalStage& stage) {
    must(stage.sql,
         "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = "
         "current_database() AND active");
  }
  // Drops the slot, whichever process uses it.
  static void drop(WalStage& stage, const std::string& slot) {
    ASSERT_TRUE(eventually([&] {
      end_sender(stage);
      if (stage.slot() != slot) return true;
      return static_cast<bool>(
          stage.sql.query("SELECT pg_drop_replication_slot($1)", Params().text(slot)));
    }));
  }

  static std::unique_ptr<live::OwnServer> server_;
};

std::unique_ptr<live::OwnServer> WalSlots::server_;

TEST_F(WalSlots, ASlotThatIsDroppedUnderLoadIsMadeAgain) {
  for (const ReadMode mode : modes(ReadMode::wal)) {
    const std::uint64_t rounds = live::is_long() ? 20 : 1;
    WalStage stage(*server_);
    start(stage, how(mode));
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const std::uint64_t before = stage.metrics().stream_starts;
      drop(stage, stage.slot());
      ASSERT_TRUE(stage.wait_for_stream(before));
      stage.let_write(50);
    }
    stage.check(said("slot dropped under load", mode).c_str());
    claim(stage.metrics().stream_ends >= rounds && stage.changes() >= 2 * rounds + 1,
          "slot dropped: %llu times back to the log, %llu ends of the stream counted",
          static_cast<unsigned long long>(stage.metrics().stream_starts.load() - 1),
          static_cast<unsigned long long>(stage.metrics().stream_ends.load()));
  }
}

TEST_F(WalSlots, ASlotThatTheServerInvalidatesIsMadeAgain) {
  for (const ReadMode mode : modes(ReadMode::wal)) {
    WalStage stage(*server_);
    start(stage, how(mode));
    stage.broker = Broker::stuck;  // so that nothing more is confirmed, and the server keeps WAL
                                   // for us
    stage.let_write(50);
    const std::uint64_t before = stage.metrics().stream_starts;
    {
      const live::Setting tiny(*server_, "max_slot_wal_keep_size", "1MB");
      EXPECT_TRUE(eventually([&] {
        must(stage.sql, "SELECT pg_switch_wal()");
        must(stage.sql, "CHECKPOINT");
        return stage.metrics().stream_ends > 0;
      }));
    }
    stage.broker = Broker::up;
    ASSERT_TRUE(stage.wait_for_stream(before));
    stage.let_write(50);
    stage.check(said("slot invalidated by a tiny max_slot_wal_keep_size", mode).c_str());
  }
}

TEST_F(WalSlots, TheDoctorFindsThemLostOrAllTaken) {
  WalStage stage(*server_);
  const std::string slot = "dovetail_shop";
  ASSERT_TRUE(ensure_relay(stage.sql, {.relay = "shop"}));
  must(stage.sql, "SELECT pg_create_logical_replication_slot('" + slot + "', 'pgoutput')");
  must(stage.sql, "UPDATE dovetail.relay_lane SET slot = '" + slot + "'");
  EXPECT_EQ(finding(stage, "slot-lost"), "");
  EXPECT_EQ(finding(stage, "no-slot-free"), "");
  {
    const live::Setting tiny(*server_, "max_slot_wal_keep_size", "1MB");
    EXPECT_TRUE(eventually([&] {
      must(stage.sql, "SELECT pg_switch_wal()");
      must(stage.sql, "CHECKPOINT");
      return text(stage.sql, "SELECT wal_status FROM pg_replication_slots") == "lost";
    }));
  }
  const std::string lost = finding(stage, "slot-lost");
  EXPECT_TRUE(contains(lost, "warning: the slot " + slot + " is lost")) << lost;
  EXPECT_TRUE(contains(lost, "raise max_slot_wal_keep_size")) << lost;
  ASSERT_TRUE(eventually([&] {
    return number(stage.sql, "SELECT count(*) FROM pg_replication_slots") == 1;
  })) << "the doctor's own has gone";
  must(stage.sql,
       "SELECT pg_create_physical_replication_slot('other_' || n) FROM generate_series(1, "
       "current_setting('max_replication_slots')::int - 1) AS n");
  const std::string none = finding(stage, "no-slot-free");
  EXPECT_TRUE(contains(none, "error: every one of max_replication_slots is taken")) << none;
  must(stage.sql, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots");
}

TEST_F(WalSlots, TheDoctorTellsWhatAFailoverAndTheVersionOfTheServerDoToThem) {
  WalStage stage(*server_);
  const std::int64_t version =
      number(stage.sql, "SELECT current_setting('server_version_num')::int8 / 10000");
  const std::string slot = "dovetail_shop";
  ASSERT_TRUE(ensure_relay(stage.sql, {.relay = "shop"}));
  must(stage.sql, "SELECT pg_create_logical_replication_slot('" + slot + "', 'pgoutput')");
  must(stage.sql, "UPDATE dovetail.relay_lane SET slot = '" + slot + "'");
  EXPECT_EQ(finding(stage, "idle-slot-timeout"), "");
  if (version >= 18) {
    const live::Setting soon(*server_, "idle_replication_slot_timeout", "1h");
    const std::string idle = finding(stage, "idle-slot-timeout");
    EXPECT_TRUE(contains(idle, "note: idle_replication_slot_timeout is 1h")) << idle;
  }
  EXPECT_EQ(finding(stage, "failover").empty(), version < 17) << "there is no standby";
  const OwnedConnection standby = receive_log(stage);
  ASSERT_TRUE(eventually([&] {
    return number(stage.sql, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") >
           0;
  }));
  const std::string failover = finding(stage, "failover");
  EXPECT_TRUE(contains(failover, version < 17 ? "a promoted standby does not have the slot"
                                              : slot + " is not synchronised to standbys"))
      << failover;
  EXPECT_TRUE(contains(failover, "note: ")) << failover;
  EXPECT_EQ(finding(stage, "standby-behind").empty(), version < 17);
  must(stage.sql, "SELECT pg_drop_replication_slot('" + slot + "')");
}

TEST_F(WalSlots, BeyondItsBudgetTheSlotIsGivenUp) {
  for (const ReadMode mode : modes(ReadMode::wal)) {
    constexpr std::int64_t kBudget = 20 << 20;
    WalStage stage(*server_);
    LanesOptions options = how(mode);
    options.reading.retained_wal_max = kBudget;
    start(stage, options);
    stage.broker = Broker::away;
    const std::uint64_t before = stage.metrics().stream_starts;
    std::int64_t most = 0;
    EXPECT_TRUE(eventually([&] {
      must(stage.sql, "SELECT pg_switch_wal()");  // 16 MiB of WAL
      std::this_thread::sleep_for(200ms);
      most = std::max(most, stage.retained_bytes());
      return stage.metrics().stream_ends > 0;
    }));
    claim(eventually([&] { return stage.log_has("retained_wal_max"); }),
          "budget: the log says why the slot is given up");
    EXPECT_TRUE(eventually([&] { return stage.retained_bytes() <= kBudget; }));
    stage.broker = Broker::up;
    ASSERT_TRUE(stage.wait_for_stream(before));
    stage.let_write(50);
    stage.check(said("broker away, budget exceeded", mode).c_str());
    claim(most <= 8 * kBudget,
          "budget: of %lld MiB; at most %lld MiB were kept before it was given up",
          static_cast<long long>(kBudget >> 20), static_cast<long long>(most >> 20));
  }
}

TEST_F(WalSlots, BehindAnOldTransactionTheTableIsReadUntilItEnds) {
  for (const ReadMode mode : modes(ReadMode::automatic)) {
    WalStage stage(*server_);
    Connection holder = server_->connect(stage.database);
    must(holder, "BEGIN");
    must(holder, "SELECT pg_current_xact_id()");
    const std::string pid = text(holder, "SELECT pg_backend_pid()::text");
    stage.start_relay(how(mode));
    stage.start_writers(50, 1ms);
    stage.let_write(50);
    const std::uint64_t wanted = stage.books.count() + 50;
    EXPECT_TRUE(eventually([&] { return stage.books.count() > wanted; }))
        << "events pass while the slot waits";
    EXPECT_TRUE(eventually([&] { return stage.log_has(pid); })) << "process " << pid;
    const bool waited = !stage.streams();
    must(holder, "COMMIT");
    ASSERT_TRUE(stage.wait_for_stream());
    stage.let_write(50);
    stage.check(said("slot made behind an old transaction", mode).c_str());
    claim(waited && stage.log_has(pid),
          "old transaction: the log names the process that is waited for");
  }
}

TEST_F(WalSlots, AConnectionThatIsCutIsMadeAgain) {
  for (const ReadMode mode : modes(ReadMode::automatic)) {
    const std::uint64_t rounds = live::is_long() ? 20 : 1;
    WalStage stage(*server_);
    servers::TcpProxy proxy(server_->port());
    LanesOptions options = how(mode);
    options.replication_conninfo = "host=127.0.0.1 port=" + std::to_string(proxy.port()) +
                                   " user=postgres dbname=" + stage.database;
    start(stage, options);
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const std::uint64_t before = stage.metrics().stream_starts;
      proxy.cut();
      ASSERT_TRUE(stage.wait_for_stream(before));
      stage.let_write(50);
    }
    stage.check(said("replication connection cut", mode).c_str());
  }
}

TEST_F(WalSlots, WhileNobodyAnswersForTheLogTheTableIsRead) {
  for (const ReadMode mode : modes(ReadMode::automatic)) {
    WalStage stage(*server_);
    servers::TcpProxy proxy(server_->port());
    LanesOptions options = how(mode);
    options.replication_conninfo = "host=127.0.0.1 port=" + std::to_string(proxy.port()) +
                                   " user=postgres dbname=" + stage.database;
    start(stage, options);
    proxy.refuse(true);
    proxy.cut();
    stage.let_write(50);
    const std::uint64_t wanted = stage.books.count() + 100;
    EXPECT_TRUE(eventually([&] { return stage.books.count() > wanted; }));
    proxy.refuse(false);
    stage.check(said("no way to the log for a while", mode).c_str());
  }
}

TEST_F(WalSlots, AStuckBrokerCostsNoStream) {
  for (const ReadMode mode : modes(ReadMode::wal)) {
    const live::Setting impatient(*server_, "wal_sender_timeout", "2s");
    WalStage stage(*server_);
    start(stage, how(mode));
    const servers::Standstill standstill;
    const std::uint64_t ends = stage.metrics().stream_ends;
    stage.broker = Broker::stuck;
    std::this_thread::sleep_for(live::is_long() ? 20s : 4s);  // otherwise it would give up in 2 s
    stage.broker = Broker::up;
    const std::uint64_t ended = stage.metrics().stream_ends - ends;
    claim(ended == 0 || !standstill.is_below(500ms),
          "wal_sender_timeout of 2 s and a stuck broker: the stream ended %llu times",
          static_cast<unsigned long long>(ended));
    stage.check(said("stuck broker", mode).c_str());
  }
}

// Someone drops the slot and makes another one with the same name: it lacks what was written in
// between.
class WalForeignSlot : public WalSlots {};

TEST_F(WalForeignSlot, OneThatSomebodyElseMadeIsNotTrusted) {
  WalStage stage(*server_);
  start(stage, how(ReadMode::wal));
  const std::string slot = stage.slot();
  stage.stop_relay();
  stage.let_write(50);
  drop(stage, slot);
  stage.let_write(50);
  must(stage.sql, "SELECT pg_create_logical_replication_slot('" + slot + "', 'pgoutput')");
  stage.let_write(50);
  stage.start_relay(how(ReadMode::wal));
  ASSERT_TRUE(stage.wait_for_stream());
  stage.check("slot made again by somebody else while the relay was away");
}

TEST_F(WalForeignSlot, NeitherIsOneThatSomebodyMovedAhead) {
  WalStage stage(*server_);
  start(stage, how(ReadMode::wal));
  const std::string slot = stage.slot();
  stage.stop_relay();
  stage.let_write(50);
  must(stage.sql, "SELECT pg_replication_slot_advance('" + slot + "', pg_current_wal_lsn())");
  stage.let_write(50);
  stage.start_relay(how(ReadMode::wal));
  ASSERT_TRUE(stage.wait_for_stream());
  stage.check("slot moved ahead by somebody else while the relay was away");
}

TEST_F(WalForeignSlot, OneThatIsMadeAgainUnderLoadLosesNothing) {
  const std::uint64_t rounds = live::is_long() ? 20 : 1;
  WalStage stage(*server_);
  start(stage, how(ReadMode::wal));
  const std::string slot = stage.slot();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const std::uint64_t before = stage.metrics().stream_starts;
    drop(stage, slot);
    // The relay may have been faster.
    (void)stage.sql.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')",
                          Params().text(slot));
    ASSERT_TRUE(stage.wait_for_stream(before));
    stage.let_write(50);
  }
  stage.check("slot dropped and made again by somebody else under load");
}

}  // namespace
}  // namespace dovetail::postgres
