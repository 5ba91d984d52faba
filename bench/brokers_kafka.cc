// Our sink beside a bare loop over librdkafka: an idempotent producer with acks=all, the same
// linger, the same key and headers on each message, delivery reports taken from an event queue.
#include <fmt/format.h>
#include <librdkafka/rdkafka.h>

#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "brokers.h"
#include "core/message/message.h"
#include "host/host.h"
#include "kafka/client.h"
#include "kafka/sink.h"

namespace dovetail::bench {

namespace {

constexpr std::size_t kEvents = 100'000;
constexpr std::size_t kBatch = 1000;
constexpr std::size_t kInFlight = 4;
constexpr int kPartitions = 3;
constexpr const char* kTopic = "orders";

using kafka::Handle;

std::string address_of(const servers::Server& server) {
  return "127.0.0.1:" + server.field("port");
}

// As the sink sets it up.
Handle<rd_kafka_s> producer_of(const servers::Server& server) {
  kafka::Options options;
  options.brokers = address_of(server);
  const auto properties = kafka::properties_of(options, kafka::Role::producer);
  require(properties.has_value(), "the properties are wrong");
  auto configuration = kafka::make_configuration(*properties);
  require(configuration.has_value(), "the configuration is wrong");
  rd_kafka_conf_set_events(configuration->get(), RD_KAFKA_EVENT_DR);
  auto made = kafka::make_client(kafka::Role::producer, std::move(*configuration));
  require(made.has_value(), "librdkafka makes no producer");
  return std::move(*made);
}

// Each run has a topic of its own, whose prefix this is.
std::string new_topic(const servers::Server& server) {
  static int count = 0;
  const std::string prefix = fmt::format("bench{}.", ++count);
  const std::string name = prefix + kTopic;
  const Handle<rd_kafka_s> admin = producer_of(server);
  const Handle<rd_kafka_queue_s> queue(rd_kafka_queue_new(admin.get()));
  rd_kafka_NewTopic_t* topic = rd_kafka_NewTopic_new(name.c_str(), kPartitions, 1, nullptr, 0);
  rd_kafka_CreateTopics(admin.get(), &topic, 1, nullptr, queue.get());
  const Handle<rd_kafka_op_s> done(rd_kafka_queue_poll(queue.get(), 30'000));
  rd_kafka_NewTopic_destroy(topic);
  require(done != nullptr && rd_kafka_event_error(done.get()) == RD_KAFKA_RESP_ERR_NO_ERROR,
          "the topic cannot be created; check the server");
  return prefix;
}

using Headers = std::array<std::pair<std::string_view, std::string_view>, 10>;

// Those that MessageWriter makes, written by hand.
Headers headers_of(const Event& event, std::string_view id, std::string_view version) {
  return {{
      {"ce_specversion", "1.0"},
      {"ce_id", id},
      {"ce_source", "dovetail"},
      {"ce_type", event.type},
      {"ce_time", "2026-01-01T00:00:00.000000Z"},
      {"ce_subject", event.aggregate_id},
      {"ce_aggregatetype", event.aggregate_type},
      {"ce_aggregateversion", version},
      {"content-type", event.content_type},
      {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
  }};
}

void produce(rd_kafka_s* producer, rd_kafka_topic_t* topic, const Event& event) {
  const std::string id = event.id.to_string();
  const std::string version = std::to_string(event.aggregate_version);
  rd_kafka_headers_t* list = rd_kafka_headers_new(std::tuple_size_v<Headers>);
  for (const auto& [name, value] : headers_of(event, id, version))
    rd_kafka_header_add(list, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                        static_cast<ssize_t>(value.size()));
  const rd_kafka_resp_err_t code = rd_kafka_producev(
      producer, RD_KAFKA_V_RKT(topic),
      RD_KAFKA_V_VALUE(const_cast<char*>(event.payload.data()), event.payload.size()),
      RD_KAFKA_V_KEY(event.aggregate_id.data(), event.aggregate_id.size()),
      RD_KAFKA_V_HEADERS(list), RD_KAFKA_V_END);
  require(code == RD_KAFKA_RESP_ERR_NO_ERROR, rd_kafka_err2str(code));
}

// Both sides must send the same.
void compare_headers(const Event& event) {
  const auto writer = MessageWriter::make({}, kKafkaDialect);
  Arena arena;
  Message message;
  require(writer && writer->write(event, arena, message), "the event cannot be written");
  const std::string id = event.id.to_string();
  const std::string version = std::to_string(event.aggregate_version);
  std::size_t ours = 0;
  std::size_t bare = 0;
  for (const MessageHeader& one : message.headers) ours += one.name.size() + one.value.size();
  for (const auto& [name, value] : headers_of(event, id, version))
    bare += name.size() + value.size();
  require(ours == bare && message.headers.size() == std::tuple_size_v<Headers>,
          fmt::format("headers of ours have {} bytes, of the bare loop {}", ours, bare));
}

std::size_t take_confirmations(rd_kafka_queue_s* queue) {
  const Handle<rd_kafka_op_s> event(rd_kafka_queue_poll(queue, 60'000));
  require(event != nullptr, "no confirmation; check the server");
  std::size_t count = 0;
  while (const rd_kafka_message_t* report = rd_kafka_event_message_next(event.get())) {
    require(report->err == RD_KAFKA_RESP_ERR_NO_ERROR, rd_kafka_err2str(report->err));
    ++count;
  }
  return count;
}

Speed bare_loop(const servers::Server& server, const std::vector<const Event*>& events) {
  const std::string name = new_topic(server) + kTopic;
  const Handle<rd_kafka_s> producer = producer_of(server);
  const Handle<rd_kafka_queue_s> queue(rd_kafka_queue_get_main(producer.get()));
  const Handle<rd_kafka_topic_s> topic(rd_kafka_topic_new(producer.get(), name.c_str(), nullptr));
  kafka::ConnectErrors trouble;
  require(kafka::broker_answers(producer.get(), 10'000, trouble), "the server does not answer");
  return measured(events.size(), [&] {
    std::size_t sent = 0;
    std::size_t confirmed = 0;
    while (confirmed < events.size()) {
      while (sent < events.size() && sent - confirmed <= (kInFlight - 1) * kBatch)
        for (std::size_t i = 0; i < kBatch && sent < events.size(); ++i)
          produce(producer.get(), topic.get(), *events[sent++]);
      confirmed += take_confirmations(queue.get());
    }
  });
}

std::unique_ptr<Sink> our_sink(const servers::Server& server) {
  kafka::Options options;
  options.brokers = address_of(server);
  options.topic_prefix = new_topic(server);
  return std::make_unique<kafka::KafkaSink>(options, system_clock());
}

}  // namespace

Place kafka_place() { return {"kafka", kTopic, our_sink}; }

void bench_kafka(Report& report) {
  const Broker broker("kafka");
  const BenchEvents events(kEvents, kTopic);
  compare_headers(*events.all().front());
  compare(report,
          {"kafka",
           [&] { return our_sink(broker.server()); },
           [&](const auto& all) { return bare_loop(broker.server(), all); },
           {}},
          events);
}

}  // namespace dovetail::bench
