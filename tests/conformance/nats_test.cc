// The NATS adapters pass the suites that every adapter passes, on a real server.
#include "conformance/sink_suite.h"
#include "conformance/source_suite.h"
#include "core/message.h"
#include "host/host.h"
#include "nats/sink.h"
#include "nats/test_server.h"

namespace dovetail::conformance {
namespace {

using nats::ConnectionOptions;
using nats::Operator;

// An account of its own, in which the subject "orders" is nobody else's.
ConnectionOptions suite_account() {
  ConnectionOptions options = nats::connection_to();
  options.user = "suite";
  options.password = "suite-secret";
  return options;
}

class Stream {
 public:
  Stream() {
    admin_.drop_stream("ORDERS");
    admin_.make_stream("ORDERS", "orders", ",\"max_msg_size\":1000000");
  }
  ~Stream() { admin_.drop_stream("ORDERS"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  std::vector<StoredEvent> stored() {
    const MessageReader reader({}, kNatsDialect);
    Batch batch;
    for (const Operator::Stored& one : admin_.stored("ORDERS")) {
      nats::HeaderBlock block;
      EXPECT_TRUE(nats::parse_headers(one.headers, block));
      std::erase_if(block.headers,
                    [](const MessageHeader& header) { return header.name.starts_with("Nats-"); });
      ReceivedMessage message;
      message.topic = one.subject;
      message.headers = block.headers;
      message.payload = one.payload;
      reader.read(message, new_event_id(), batch);
    }
    std::vector<StoredEvent> events;
    for (const Event& event : batch.events()) events.emplace_back(event);
    return events;
  }

 private:
  Operator admin_{suite_account()};
};

class NatsStream final : public SinkUnderTest {
 public:
  SinkAbilities abilities() const override { return {.dedup = true, .can_refuse = true}; }
  std::unique_ptr<Sink> make() override {
    nats::SinkOptions options;
    options.connection = suite_account();
    return std::make_unique<nats::NatsSink>(options, system_clock());
  }
  std::vector<StoredEvent> stored() override { return stream_.stored(); }
  void make_poison(Event& event) override { event.topic = "a subject with spaces"; }

 private:
  Stream stream_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SourceSuite);

template <class Under>
std::unique_ptr<SinkUnderTest> make_sink_case() {
  return std::make_unique<Under>();
}

INSTANTIATE_TEST_SUITE_P(Nats, SinkSuite,
                         testing::Values(SinkCase{"jetstream", make_sink_case<NatsStream>}),
                         case_name<SinkCase>);

}  // namespace
}  // namespace dovetail::conformance
