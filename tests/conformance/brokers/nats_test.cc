// The NATS adapters pass the suites for all adapters, on a real server.
#include "conformance/brokers/nats_stored.h"
#include "conformance/limits_suite.h"
#include "conformance/sink_suite.h"
#include "conformance/source_suite.h"
#include "host/host.h"
#include "nats/sink.h"
#include "nats/source.h"
#include "nats/test_server.h"

namespace dovetail::conformance {
namespace {

using nats::ConnectionOptions;
using nats::Operator;

// One for all tests in this file: they delete streams and restart it.
servers::Started& own_server() {
  static servers::Started server("nats");
  return server;
}

ConnectionOptions own_connection() { return nats::connection_to(own_server().server()); }

class Stream {
 public:
  Stream() {
    admin_.drop_stream("ORDERS");
    admin_.ask("STREAM.CREATE.ORDERS",
               R"({"name":"ORDERS","subjects":["orders","own.topic"],"storage":"file"})");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void connect_again() { admin_.connect(own_connection()); }
  std::vector<StoredEvent> stored() { return stored_in(admin_, "ORDERS"); }

 private:
  Operator admin_{own_connection()};
};

class NatsStream final : public SinkUnderTest {
 public:
  SinkAbilities abilities() const override {
    return {.dedup = true, .can_refuse = true, .can_restart = true};
  }
  std::unique_ptr<Sink> make() override {
    nats::Options options{{own_connection()}};
    return std::make_unique<nats::NatsSink>(options, system_clock());
  }
  std::vector<StoredEvent> stored() override { return stream_.stored(); }
  void restart_server() override {
    ASSERT_TRUE(own_server().crash());
    stream_.connect_again();
  }
  // The server's limit includes headers.
  std::size_t payload_bytes_max(const Event& event) override {
    const auto writer = MessageWriter::make({}, kNatsDialect);
    Arena arena;
    Message message;
    EXPECT_TRUE(writer->write(event, arena, message));
    std::size_t headers = std::string_view("NATS/1.0\r\n\r\nNats-Msg-Id: \r\n").size() + 36;
    for (const MessageHeader& header : message.headers)
      headers += header.name.size() + header.value.size() + 4;
    return std::stoul(own_server().server().field("max_payload")) - headers;
  }
  void make_poison(Event& event) override { event.topic = "a subject with spaces"; }

 private:
  Stream stream_;
};

// Our own sink publishes the events.
class NatsConsumer final : public SourceUnderTest {
 public:
  NatsConsumer() {
    nats::Options options{{own_connection()}};
    sink_ = std::make_unique<nats::NatsSink>(options, system_clock());
    const Status opened = sink_->open();
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
  }
  SourceAbilities abilities() const override { return {.can_restart = true}; }
  void restart_server() override { ASSERT_TRUE(own_server().crash()); }
  std::unique_ptr<Source> make() override {
    nats::Options options{{own_connection()}};
    options.stream = "ORDERS";
    options.group = "reader";
    return std::make_unique<nats::NatsSource>(options, system_clock());
  }
  void publish(const NewEvent& event) override {
    const std::string headers = event.headers.empty() ? "" : *encode_headers(event.headers);
    Event one;
    one.id = *event.id;
    one.topic = event.topic.empty() ? "orders" : event.topic;
    one.aggregate_type = event.aggregate_type;
    one.aggregate_id = event.aggregate_id;
    one.type = event.type;
    one.content_type = event.content_type;
    one.payload = event.payload;
    one.headers = headers;
    one.aggregate_version = event.aggregate_version;
    const Event* const list[] = {&one};
    ASSERT_TRUE(sink_->submit(list));
    Outcome outcome;
    Result<bool> known = false;
    while (known && !*known) known = sink_->collect({&outcome, 1}, std::chrono::seconds(1));
    ASSERT_TRUE(known);
    ASSERT_EQ(outcome.fate, Fate::confirmed) << outcome.reason;
  }

 private:
  Stream stream_;
  std::unique_ptr<nats::NatsSink> sink_;
};

template <class Under>
std::unique_ptr<SinkUnderTest> make_sink_case() {
  return std::make_unique<Under>();
}

std::unique_ptr<SourceUnderTest> make_source_case() { return std::make_unique<NatsConsumer>(); }

INSTANTIATE_TEST_SUITE_P(Nats, LimitsSuite,
                         testing::Values(SinkCase{"jetstream", make_sink_case<NatsStream>}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Nats, SourceSuite,
                         testing::Values(SourceCase{"jetstream", make_source_case}),
                         case_name<SourceCase>);

INSTANTIATE_TEST_SUITE_P(Nats, SinkSuite,
                         testing::Values(SinkCase{"jetstream", make_sink_case<NatsStream>}),
                         case_name<SinkCase>);

}  // namespace
}  // namespace dovetail::conformance
