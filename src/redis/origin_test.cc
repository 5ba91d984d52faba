#include <gtest/gtest.h>

#include "dovetail/redis.h"
#include "kit/origins.h"
#include "redis/test_server.h"

namespace dovetail::redis {
namespace {

class RedisOrigin : public testing::Test {
 protected:
  RedisOrigin() {
    options_.host = database_.options().host;
    options_.port = database_.options().port;
    options_.database = database_.options().database;
    options_.streams = {"orders"};
    options_.group = "stock";
  }

  TestDatabase database_{own_server().server()};
  ReadOptions options_;
};

TEST_F(RedisOrigin, MakesSourcesThatReadWhatWasNotSettled) {
  options_.foreign.type = "kind";
  database_.run({"XADD", "orders", "*", "key", "k", "data", "hello", "kind", "placed"});
  const Result<Origin> made = origin(options_);
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->shown, "Redis at " + options_.host + ":" + std::to_string(options_.port));
  expect_to_read_twice(*made, "hello", "placed");
}

TEST_F(RedisOrigin, WrongOptionsAreRefusedWithTheirReason) {
  const auto refused = [&](const std::function<void(ReadOptions&)>& change) {
    ReadOptions wrong = options_;
    change(wrong);
    const Result<Origin> made = origin(wrong);
    return !made && made.error().code == Errc::rejected && !made.error().text.empty();
  };
  EXPECT_FALSE(refused([](ReadOptions&) {}));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.host.clear(); }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.streams.clear(); }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.group.clear(); }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.prefetch = 0; }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.key_file = "without a certificate"; }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.key_header = wrong.payload_field; }));
  EXPECT_TRUE(
      refused([](ReadOptions& wrong) { wrong.redeliver_after = std::chrono::milliseconds(1); }));
}

}  // namespace
}  // namespace dovetail::redis
