// The RabbitMQ adapters pass the suites of outages.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/outage_suite.h"
#include "conformance/rabbitmq_stored.h"
#include "rabbitmq/sink.h"
#include "rabbitmq/source.h"

namespace dovetail::conformance {
namespace {

class Rabbitmq final : public OutageUnderTest {
 public:
  OutageAbilities abilities() const override {
    OutageAbilities abilities;
    abilities.can_block = true;
    abilities.takeover_keeps_order = true;
    return abilities;
  }
  servers::Started& server() override { return started_; }
  void begin(const std::string&) override {
    broker_.reset();
    broker_.emplace(started_.server());
    broker_->make_queue("orders", R"({"x-queue-type":"quorum","x-single-active-consumer":true})");
  }
  std::unique_ptr<Sink> make_sink(int port) override {
    auto sink = rabbitmq::RabbitmqSink::make(options(port), system_clock());
    EXPECT_TRUE(sink) << (sink ? "" : sink.error().text);
    return std::move(*sink);
  }
  std::vector<StoredEvent> stored() override { return stored_in(*broker_, "orders"); }
  void block() override { ASSERT_TRUE(broker_->ctl("set_vm_memory_high_watermark 0")); }
  void unblock() override { ASSERT_TRUE(broker_->ctl("set_vm_memory_high_watermark 0.4")); }
  std::unique_ptr<Source> make_source(int port, const std::string& consumer) override {
    rabbitmq::Options made = options(port);
    made.connection_name = consumer;
    made.queues = {"orders"};
    made.exclusive = false;
    return std::make_unique<rabbitmq::RabbitmqSource>(std::move(made), system_clock());
  }

 private:
  rabbitmq::Options options(int port) const {
    rabbitmq::Options made = broker_->options();
    made.server.port = static_cast<std::uint16_t>(port);
    return made;
  }

  servers::Started started_{"rabbitmq"};
  std::optional<rabbitmq::TestBroker> broker_;
};

std::unique_ptr<OutageUnderTest> make() { return std::make_unique<Rabbitmq>(); }

INSTANTIATE_TEST_SUITE_P(Rabbitmq, OutageSuite, testing::Values(OutageCase{"rabbitmq", make}),
                         case_name<OutageCase>);

}  // namespace
}  // namespace dovetail::conformance
