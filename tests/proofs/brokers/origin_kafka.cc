#include "dovetail/kafka.h"
#include "host/host.h"
#include "kafka/sink.h"
#include "kafka/test_cluster.h"
#include "proofs/brokers/origins.h"

namespace dovetail::live {
namespace {

class Kafka final : public OriginUnderTest {
 public:
  Kafka() { cluster_.create_topic("orders.events", 1); }
  Result<Origin> origin() override {
    kafka::ReadOptions options;
    options.brokers = cluster_.address();
    options.topics = {cluster_.prefix() + "orders.events"};
    options.group = cluster_.prefix() + "stock";
    return kafka::origin(options);
  }
  std::unique_ptr<Sink> sink() override {
    return std::make_unique<kafka::KafkaSink>(cluster_.options(), system_clock());
  }

 private:
  kafka::TestCluster cluster_;
};

}  // namespace

const OriginCase kKafkaOrigin = {
    "kafka", false, []() -> std::unique_ptr<OriginUnderTest> { return std::make_unique<Kafka>(); }};

}  // namespace dovetail::live
