// The RabbitMQ adapters pass the suites of outages.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/brokers/rabbitmq_stored.h"
#include "kit/eventually.h"
#include "proofs/brokers/outage_source_suite.h"
#include "proofs/brokers/outage_suite.h"
#include "rabbitmq/sink.h"
#include "rabbitmq/source.h"

namespace dovetail::conformance {
namespace {

class Rabbitmq final : public OutageUnderTest {
 public:
  OutageAbilities abilities() const override {
    OutageAbilities abilities;
    abilities.can_block = true;
    abilities.can_block_for_moments = false;  // it takes seconds
    abilities.takeover_keeps_order = true;
    return abilities;
  }
  servers::Started& server() override { return started_; }
  void begin(const std::string&) override {
    broker_.reset();
    broker_.emplace(started_.server());
    broker_->make_exchange("events", "fanout");
    // One queue to inspect and one to consume: a queue with a single active consumer cannot be
    // inspected. A message is confirmed when both have it.
    broker_->make_queue("orders", R"({"x-queue-type":"classic"})");
    broker_->make_queue("consumed", R"({"x-queue-type":"quorum","x-single-active-consumer":true})");
    for (const char* queue : {"orders", "consumed"}) broker_->bind("events", queue, "");
    ASSERT_TRUE(eventually([this] { return is_registered("consumed"); }));
  }
  std::unique_ptr<Sink> make_sink(int port) override {
    rabbitmq::Options made = options(port);
    made.exchange = "events";
    auto sink = rabbitmq::RabbitmqSink::make(std::move(made), system_clock());
    EXPECT_TRUE(sink) << (sink ? "" : sink.error().text);
    return std::move(*sink);
  }
  std::vector<StoredEvent> stored() override {
    return PlainReader(broker_->options()).all("orders");
  }
  void block() override { ASSERT_TRUE(broker_->ctl("set_vm_memory_high_watermark 0")); }
  void unblock() override { ASSERT_TRUE(broker_->ctl("set_vm_memory_high_watermark 0.4")); }
  std::unique_ptr<Source> make_source(int port, const std::string& consumer) override {
    rabbitmq::Options made = options(port);
    made.connection_name = consumer;
    made.queues = {"consumed"};
    made.exclusive = false;
    return std::make_unique<rabbitmq::RabbitmqSource>(std::move(made), system_clock());
  }

 private:
  // A quorum queue survives a SIGKILL of the server only after the server has recorded it, about a
  // second after it was made.
  bool is_registered(const std::string& queue) const {
    const std::string name = broker_->options().virtual_host + "_" + queue;
    const std::filesystem::path data = started_.server().field("home") + "/data";
    for (const auto& file : std::filesystem::recursive_directory_iterator(data)) {
      if (file.path().filename() != "names.dets") continue;
      std::ifstream in(file.path(), std::ios::binary);
      if (std::string(std::istreambuf_iterator<char>(in), {}).find(name) != std::string::npos)
        return true;
    }
    return false;
  }
  rabbitmq::Options options(int port) const {
    rabbitmq::Options made = broker_->options();
    made.port = static_cast<std::uint16_t>(port);
    return made;
  }

  servers::Started started_{"rabbitmq"};
  std::optional<rabbitmq::TestBroker> broker_;
};

std::unique_ptr<OutageUnderTest> make() { return std::make_unique<Rabbitmq>(); }

INSTANTIATE_TEST_SUITE_P(Rabbitmq, OutageSuite, testing::Values(OutageCase{"rabbitmq", make}),
                         case_name<OutageCase>);
INSTANTIATE_TEST_SUITE_P(Rabbitmq, SourceOutageSuite, testing::Values(OutageCase{"rabbitmq", make}),
                         case_name<OutageCase>);

}  // namespace
}  // namespace dovetail::conformance
