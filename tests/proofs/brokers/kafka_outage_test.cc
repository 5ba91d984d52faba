// The Kafka adapters pass the suites of outages.
#include <memory>
#include <string>
#include <vector>

#include "conformance/brokers/kafka_stored.h"
#include "host/host.h"
#include "kafka/sink.h"
#include "kafka/source.h"
#include "proofs/brokers/outage_source_suite.h"
#include "proofs/brokers/outage_suite.h"

namespace dovetail::conformance {
namespace {

using kafka::KafkaSink;
using kafka::KafkaSource;
using kafka::TestCluster;

class Kafka final : public OutageUnderTest {
 public:
  OutageAbilities abilities() const override {
    OutageAbilities abilities;
    abilities.takeover_keeps_order = true;
    return abilities;
  }
  servers::Started& server() override { return started_; }
  // The broker tells its clients to connect to the proxy.
  std::unique_ptr<servers::TcpProxy> make_proxy() override {
    const servers::Server& kafka = server().server();
    return std::make_unique<servers::TcpProxy>(std::stoi(kafka.field("behind_port")),
                                               std::stoi(kafka.field("proxy_port")));
  }
  void begin(const std::string&) override {
    cluster_ = std::make_unique<TestCluster>(server().server());
    cluster_->create_topic("orders", kPartitions);
  }
  std::unique_ptr<Sink> make_sink(int port) override {
    return std::make_unique<KafkaSink>(options(port), system_clock());
  }
  std::vector<StoredEvent> stored() override {
    return events_of(cluster_->messages("orders", kPartitions));
  }
  std::unique_ptr<Source> make_source(int port, const std::string&) override {
    kafka::Options with = options(port);
    with.topics = {"orders"};
    with.properties["session.timeout.ms"] = "3000";
    return std::make_unique<KafkaSource>(std::move(with), system_clock());
  }

 private:
  static constexpr int kPartitions = 3;
  kafka::Options options(int port) const {
    kafka::Options options = cluster_->options();
    options.brokers = "127.0.0.1:" + std::to_string(port);
    return options;
  }
  servers::Started started_{"kafka"};
  std::unique_ptr<TestCluster> cluster_;
};

std::unique_ptr<OutageUnderTest> make() { return std::make_unique<Kafka>(); }

INSTANTIATE_TEST_SUITE_P(Kafka, OutageSuite, testing::Values(OutageCase{"kafka", make}),
                         case_name<OutageCase>);
INSTANTIATE_TEST_SUITE_P(Kafka, SourceOutageSuite, testing::Values(OutageCase{"kafka", make}),
                         case_name<OutageCase>);

}  // namespace
}  // namespace dovetail::conformance
