#include "postgres/stream/receiver.h"

#include "postgres/testing/test_wal.h"
#include "servers/standstill.h"
#include "servers/tcp_proxy.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

TEST(WalReceiverAge, IsOfTheServersClockAlone) {
  const WallTime time{24h * 20'000};
  EXPECT_FALSE(is_old(time, time));
  EXPECT_FALSE(is_old(time, time + 1s));
  EXPECT_TRUE(is_old(time, time + 3s));
  EXPECT_TRUE(is_old(time, time + 48h));
  EXPECT_TRUE(is_old(time, time - 1h)) << "the clock was set back since the commit";
}

// A machine whose wall clock is wrong.
class WrongClock final : public Clock {
 public:
  explicit WrongClock(Duration ahead) : ahead_(ahead) {}
  TimePoint now() override { return system_clock().now(); }
  WallTime wall() override { return system_clock().wall() + ahead_; }
  void sleep(Duration duration, std::stop_token stop) override {
    system_clock().sleep(duration, std::move(stop));
  }

 private:
  Duration ahead_;
};

class WalReceiverTest : public ::testing::Test {
 protected:
  WalReceiverTest() {
    options.silence_max = 2s;
    options.status_every = 50ms;
  }
  std::string through_proxy() const {
    return "host=127.0.0.1 port=" + std::to_string(proxy.port()) +
           " user=postgres dbname=" + database.name;
  }

  OutboxDatabase database;
  Connection connection = database.connect();
  servers::TcpProxy proxy{servers::find("postgres").port()};
  WalStreamOptions options;
};

TEST_F(WalReceiverTest, ASilentServerIsTakenForLost) {
  TestStream test(through_proxy(), options);
  publish(connection, "1", "{}");
  ASSERT_TRUE(test.read_until(1));
  proxy.stall();
  const Error error = test.end();
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_TRUE(contains(error.text, "is silent")) << error.text;
}

TEST_F(WalReceiverTest, AnIdleServerThatAnswersIsNot) {
  const servers::Standstill standstill;
  TestStream test(through_proxy(), options);
  const auto end = std::chrono::steady_clock::now() + options.silence_max + 1s;
  while (std::chrono::steady_clock::now() < end) {
    const Status read = test.read();
    if (!read && !standstill.is_below(options.silence_max / 3)) GTEST_SKIP() << text_of(read);
    ASSERT_TRUE(read) << text_of(read);
  }
  publish(connection, "1", "{}");
  EXPECT_TRUE(test.read_until(1));
}

// Each request is a connection. When an event is read, everything before it has been
// judged.
TEST_F(WalReceiverTest, AServerThatIsBehindByItsOwnClockIsAskedWhetherItStops) {
  Replication replication = open_replication(database.conninfo);
  make_slot(replication, database.name, false);
  {
    WrongClock ahead(48h);
    TestStream test(through_proxy(), database.name, ahead);
    auto longest = 0ns;
    for (std::size_t i = 1; i <= 3; ++i) {
      const auto began = std::chrono::steady_clock::now();
      publish(connection, "1", "{}");
      ASSERT_TRUE(test.read_until(i));
      longest =
          std::max<std::chrono::nanoseconds>(longest, std::chrono::steady_clock::now() - began);
    }
    // On a machine this slow, asking is correct.
    if (longest < 2s) {
      EXPECT_EQ(proxy.counters().connections, 1u);
    }
  }
  ASSERT_TRUE(eventually([&] { return !(*find_slot(connection, database.name))->active; }));
  must(connection, "SELECT pg_sleep(2.5)");
  const std::uint64_t before = proxy.counters().connections;
  WrongClock behind(-48h);
  TestStream late(through_proxy(), database.name, behind);
  ASSERT_TRUE(late.read_until(3));
  publish(connection, "1", "{}");
  ASSERT_TRUE(late.read_until(4));
  EXPECT_GE(proxy.counters().connections, before + 2);
}

}  // namespace
}  // namespace dovetail::postgres
