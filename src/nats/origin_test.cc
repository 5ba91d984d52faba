#include <gtest/gtest.h>

#include "dovetail/nats.h"
#include "kit/origins.h"
#include "nats/test_server.h"

namespace dovetail::nats {
namespace {

class NatsOrigin : public testing::Test {
 protected:
  void SetUp() override {
    admin_.make_stream(name_, name_ + ".>");
    const ConnectionOptions server = connection_to();
    options_.servers = {{server.servers[0].host, server.servers[0].port}};
    options_.user = server.user;
    options_.password = server.password;
    options_.stream = name_;
    options_.group = "stock";
  }
  void TearDown() override { admin_.drop_stream(name_); }

  Operator admin_;
  std::string name_ = own_name("origin");
  ReadOptions options_;
};

TEST_F(NatsOrigin, MakesSourcesThatReadWhatWasNotSettled) {
  options_.foreign.type = "kind";
  const Result<Origin> made = origin(options_);
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->shown,
            "NATS at " + options_.servers[0].host + ":" + std::to_string(options_.servers[0].port));
  Connection& connection = admin_.connection();
  append_publish(connection.out(), name_ + ".a", connection.inbox() + "stored",
                 "NATS/1.0\r\nNats-Msg-Id: order-17\r\nkind: placed\r\n\r\n", "hello");
  ASSERT_TRUE(connection.pump(std::chrono::seconds(10), [](const Frame&) {}));
  expect_to_read_twice(*made, "hello", "placed");
}

TEST_F(NatsOrigin, WrongOptionsAreRefusedWithTheirReason) {
  const auto refused = [&](const std::function<void(ReadOptions&)>& change) {
    ReadOptions wrong = options_;
    change(wrong);
    const Result<Origin> made = origin(wrong);
    return !made && made.error().code == Errc::rejected && !made.error().text.empty();
  };
  EXPECT_FALSE(refused([](ReadOptions&) {}));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.servers.clear(); }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.group.clear(); }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.stream.clear(); }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.prefetch = 0; }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.token = "and a user"; }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.cert_file = "without a key"; }));
  EXPECT_TRUE(
      refused([](ReadOptions& wrong) { wrong.redeliver_after = std::chrono::milliseconds(1); }));
}

}  // namespace
}  // namespace dovetail::nats
