#include "dovetail/redis.h"
#include "proofs/brokers/origins.h"
#include "redis/sink.h"
#include "redis/test_server.h"

namespace dovetail::live {
namespace {

class Redis final : public OriginUnderTest {
 public:
  Result<Origin> origin() override {
    redis::ReadOptions options;
    options.host = database_.options().host;
    options.port = database_.options().port;
    options.database = database_.options().database;
    options.streams = {"orders.events"};
    options.group = "stock";
    return redis::origin(options);
  }
  std::unique_ptr<Sink> sink() override {
    return std::make_unique<redis::RedisSink>(database_.options(), system_clock());
  }

 private:
  redis::TestDatabase database_{redis::own_server().server()};
};

}  // namespace

const OriginCase kRedisOrigin = {
    "redis", false, []() -> std::unique_ptr<OriginUnderTest> { return std::make_unique<Redis>(); }};

}  // namespace dovetail::live
