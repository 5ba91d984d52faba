// The primary dies under load, and its standby, which has no slot, takes over.
#include <gtest/gtest.h>

#include "kit/claims.h"
#include "postgres/testing/test_version.h"
#include "proofs/wal/server_stage.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::Books;
using live::claim;
using live::how;
using live::said;
using live::WalStage;

// To the new primary. The dying one may still accept connections.
Connection connect(const WalStage& stage) {
  Connection there;
  EXPECT_TRUE(eventually([&] {
    Result<Connection> opened = Connection::open(stage.conninfo);
    if (opened) there = std::move(*opened);
    return static_cast<bool>(opened);
  }));
  return there;
}

void promote_without_slot(ReadMode mode) {
  live::OwnServer server(mode == ReadMode::wal ? "wal_promotion" : "auto_promotion");
  ASSERT_TRUE(server.is_there()) << server.missing();
  server.start_standby();
  WalStage stage(server);
  stage.conninfo = server.either(stage.database);
  stage.start_relay(how(mode));
  ASSERT_TRUE(stage.wait_for_stream());
  stage.start_writers(50, 1ms);
  stage.let_write(live::is_long() ? 5000 : 200);
  const std::uint64_t before = stage.metrics().stream_starts;
  server.promote();
  Connection there = connect(stage);
  ASSERT_TRUE(stage.wait_for_stream(before));
  stage.let_write(live::is_long() ? 5000 : 200);
  // Events sent but not replicated are not the relay's fault: the primary had them.
  stage.check(said("standby promoted without the slot", mode).c_str(), there);
  claim(stage.log_has("another server has taken over"), "%s",
        said("promotion: the log tells of it", mode).c_str());
}

TEST(WalPromotion, ToAStandbyWithoutTheSlotLosesNothingThatItHas) {
  // Side by side, because they mostly wait.
  const std::jthread automatic(promote_without_slot, ReadMode::automatic);
  promote_without_slot(ReadMode::wal);
}

// The server copies the slot to its standby, and sends only what the standby has.
TEST(WalPromotion, ASlotThatTheStandbyKeepsIsGoneOnWith) {
  if (!live::is_long()) GTEST_SKIP() << "by ./dev chaos wal";
  live::OwnServer server("wal_failover");
  ASSERT_TRUE(server.is_there()) << server.missing();
  Connection primary = server.connect();
  if (is_before(primary, 17))
    GTEST_SKIP() << "this version of PostgreSQL keeps no slots on a standby";
  // The standby starts as a copy; on the primary these settings have no effect.
  server.set("hot_standby_feedback", "on");
  server.set("sync_replication_slots", "on");
  server.set("primary_slot_name", "standby");
  must(primary, "SELECT pg_create_physical_replication_slot('standby', true)");
  server.start_standby();
  server.set("synchronized_standby_slots", "standby");
  WalStage stage(server);
  stage.conninfo = server.either(stage.database);
  stage.start_relay(how(ReadMode::wal));
  ASSERT_TRUE(stage.wait_for_stream());
  stage.start_writers(50, 1ms);
  Connection standby = server.connect_to_standby();
  ASSERT_TRUE(eventually([&] {
    // The slot moves when the server logs its running transactions.
    must(primary, "CHECKPOINT");
    std::this_thread::sleep_for(200ms);
    return number(standby,
                  "SELECT count(*) FROM pg_replication_slots WHERE synced AND NOT temporary AND "
                  "invalidation_reason IS NULL") == 1;
  }));
  stage.let_write(live::is_long() ? 5000 : 200);
  const std::uint64_t before = stage.metrics().stream_starts;
  server.promote();
  Connection there = connect(stage);
  ASSERT_TRUE(stage.wait_for_stream(before));
  stage.let_write(50);
  stage.check("standby promoted with the slot", there);
  const Books::Balance balance = stage.books.compare(there);
  claim(balance.phantom == 0, "promotion with the slot: %llu events were sent that it did not have",
        static_cast<unsigned long long>(balance.phantom));
  claim(stage.log_has("where it stood"), "promotion with the slot: it resumes");
}

}  // namespace
}  // namespace dovetail::postgres
