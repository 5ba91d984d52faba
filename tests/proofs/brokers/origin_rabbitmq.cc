#include "dovetail/rabbitmq.h"
#include "proofs/brokers/origins.h"
#include "rabbitmq/sink.h"
#include "rabbitmq/test_broker.h"

namespace dovetail::live {
namespace {

class Rabbitmq final : public OriginUnderTest {
 public:
  Rabbitmq() {
    broker_.make_exchange("events", "fanout");
    broker_.make_queue("orders.events");
    broker_.bind("events", "orders.events", "");
  }
  Result<Origin> origin() override {
    rabbitmq::ReadOptions options;
    options.port = broker_.options().port;
    options.virtual_host = broker_.options().virtual_host;
    options.queues = {"orders.events"};
    return rabbitmq::origin(options);
  }
  std::unique_ptr<Sink> sink() override {
    rabbitmq::Options options = broker_.options();
    options.exchange = "events";
    auto made = rabbitmq::RabbitmqSink::make(std::move(options), system_clock());
    EXPECT_TRUE(made) << (made ? "" : made.error().text);
    return std::move(*made);
  }

 private:
  rabbitmq::TestBroker broker_;
};

}  // namespace

const OriginCase kRabbitmqOrigin = {"rabbitmq", false, []() -> std::unique_ptr<OriginUnderTest> {
                                      return std::make_unique<Rabbitmq>();
                                    }};

}  // namespace dovetail::live
