// Streams of a server that is stopped, reconfigured or short of slots.
#include <csignal>
#include <filesystem>

#include "postgres/testing/test_wal.h"

namespace dovetail::postgres {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// One server for all tests; each leaves it running.
class WalServer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<servers::Started>("other");
    ASSERT_TRUE(server->server().missing.empty()) << server->server().missing;
    Connection owner = connect();
    const Status made = create_schema(owner);
    EXPECT_TRUE(made) << text_of(made);
  }
  static void TearDownTestSuite() { server.reset(); }

  static const std::string& conninfo() { return server->server().conninfo; }
  static Connection connect() {
    Result<Connection> connection = Connection::open(conninfo());
    EXPECT_TRUE(connection) << text_of(connection);
    return connection ? std::move(*connection) : Connection();
  }
  // Like `pg_ctl stop -m fast`; returns the time it took.
  static Duration stop() {
    const auto before = steady_clock::now();
    ::kill(server->pid(), SIGINT);
    const std::string file = server->server().field("host") + "/data/postmaster.pid";
    EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(file); }));
    return std::chrono::duration_cast<Duration>(steady_clock::now() - before);
  }
  // A slot that the server refuses to make.
  static Result<std::optional<CreatedSlot>> refused_slot() {
    Replication replication = open_replication(conninfo());
    EXPECT_TRUE(replication.ask_for_slot("refused", true, false));
    Result<std::optional<CreatedSlot>> made = std::optional<CreatedSlot>();
    EXPECT_TRUE(eventually([&] { return !(made = replication.slot_made()); }));
    return made;
  }

  static inline std::unique_ptr<servers::Started> server;
};

TEST_F(WalServer, ThatStopsIsNotHeldUpByStreamsThatNobodyReads) {
  TestStream idle(conninfo());
  WalStreamOptions small;
  small.buffer_bytes_max = 256 << 10;
  TestStream full(conninfo(), small);
  TestStream unconfirmed(conninfo());
  Connection writer = connect();
  publish(writer, "first", "{}");
  // Each has reported something, so that the server waits for the rest.
  for (TestStream* test : {&idle, &full, &unconfirmed}) {
    ASSERT_TRUE(test->read_until(1));
    test->settle(1);
    test->report();
  }
  publish_many(writer, 20'000, 300);
  ASSERT_TRUE(unconfirmed.read_until(20'001));
  EXPECT_LT(stop(), seconds(10));
  for (TestStream* test : {&idle, &full, &unconfirmed}) {
    EXPECT_TRUE(eventually([&] { return !test->stream->check(); }));
    EXPECT_TRUE(failed_with(test->stream->check(), Errc::unavailable));
  }
  EXPECT_TRUE(server->again());
}

TEST_F(WalServer, ThatHasNoRoomForWhatASlotHoldsEndsItsStreamAndSaysSo) {
  Connection connection = connect();
  must(connection, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'");
  must(connection, "SELECT pg_reload_conf()");
  TestStream test(conninfo(), {}, {}, false);
  publish(connection, "first", "{}");
  ASSERT_TRUE(test.read_until(1));
  for (int i = 0; i < 4; ++i) {
    must(connection, "SELECT pg_logical_emit_message(false, 'noise', repeat('x', 8000000))");
    must(connection, "SELECT pg_switch_wal()");
  }
  must(connection, "CHECKPOINT");
  const Error why = test.end();
  EXPECT_EQ(why.code, Errc::unavailable) << why.text;
  EXPECT_EQ((*find_slot(connection, test.slot))->wal_status, "lost");
  Replication again = open_replication(conninfo());
  const Status refused = again.start({test.slot, std::string(kOutboxPublication)});
  EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
  EXPECT_TRUE(drop_slot(connection, test.slot));
  must(connection, "ALTER SYSTEM RESET max_slot_wal_keep_size");
}

TEST_F(WalServer, ThatCannotDecodeSaysWhatToChange) {
  Connection connection = connect();
  must(connection, "ALTER SYSTEM SET max_replication_slots = 1");
  ASSERT_TRUE(server->crash());
  {
    Replication first = open_replication(conninfo());
    make_slot(first, "only", true);
    const auto full = refused_slot();
    EXPECT_TRUE(failed_with(full, Errc::rejected)) << text_of(full);
    EXPECT_TRUE(contains(text_of(full), "max_replication_slots")) << text_of(full);
  }
  connection = connect();
  must(connection, "ALTER SYSTEM SET wal_level = 'replica'");
  ASSERT_TRUE(server->crash());
  connection = connect();
  const auto why = why_not_streamed(connection, kOutboxPublication);
  ASSERT_TRUE(why && *why) << text_of(why);
  EXPECT_TRUE(contains(**why, "set wal_level = logical")) << **why;
  const auto refused = refused_slot();
  EXPECT_TRUE(failed_with(refused, Errc::rejected)) << text_of(refused);
}

}  // namespace
}  // namespace dovetail::postgres
