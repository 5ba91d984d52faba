// The Redis adapters pass the suites of outages.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/brokers/redis_stored.h"
#include "proofs/brokers/outage_source_suite.h"
#include "proofs/brokers/outage_suite.h"
#include "redis/sink.h"
#include "redis/source.h"

namespace dovetail::conformance {
namespace {

class Redis final : public OutageUnderTest {
 public:
  OutageAbilities abilities() const override {
    OutageAbilities abilities;
    abilities.can_block = true;
    abilities.takeover_keeps_order = true;
    return abilities;
  }
  servers::Started& server() override { return started_; }
  void begin(const std::string&) override { database_.emplace(started_.server()); }
  std::unique_ptr<Sink> make_sink(int port) override {
    return std::make_unique<redis::RedisSink>(options(port), system_clock());
  }
  std::vector<StoredEvent> stored() override {
    database_->disconnect();  // from a server that may have been killed
    return stored_in(*database_);
  }
  void block() override { set_memory("1"); }
  void unblock() override { set_memory("0"); }
  std::unique_ptr<Source> make_source(int port, const std::string& consumer) override {
    redis::Options made = options(port);
    made.consumer = consumer;
    made.redeliver_after = seconds(1);
    return std::make_unique<redis::RedisSource>(std::move(made), system_clock());
  }

 private:
  redis::Options options(int port) const {
    redis::Options made = database_->options();
    made.port = static_cast<std::uint16_t>(port);
    return made;
  }
  void set_memory(const char* bytes) {
    const redis::Reply done = database_->run({"CONFIG", "SET", "maxmemory", bytes});
    ASSERT_EQ(done.value().text(), "OK");
  }

  servers::Started started_{"redis"};
  std::optional<redis::TestDatabase> database_;
};

std::unique_ptr<OutageUnderTest> make() { return std::make_unique<Redis>(); }

INSTANTIATE_TEST_SUITE_P(Redis, OutageSuite, testing::Values(OutageCase{"redis", make}),
                         case_name<OutageCase>);
INSTANTIATE_TEST_SUITE_P(Redis, SourceOutageSuite, testing::Values(OutageCase{"redis", make}),
                         case_name<OutageCase>);

}  // namespace
}  // namespace dovetail::conformance
