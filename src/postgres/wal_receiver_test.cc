#include "postgres/wal_receiver.h"

#include "postgres/test_wal.h"
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
  EXPECT_TRUE(contains(error.text, "says nothing any more")) << error.text;
}

TEST_F(WalReceiverTest, AnIdleServerThatAnswersIsNot) {
  TestStream test(through_proxy(), options);
  const auto end = std::chrono::steady_clock::now() + options.silence_max + 1s;
  while (std::chrono::steady_clock::now() < end) {
    const Status read = test.read();
    ASSERT_TRUE(read) << text_of(read);
  }
  publish(connection, "1", "{}");
  EXPECT_TRUE(test.read_until(1));
}

}  // namespace
}  // namespace dovetail::postgres
