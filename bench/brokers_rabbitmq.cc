// Our sink beside a bare loop over rabbitmq-c: persistent, mandatory messages with the same
// properties and headers, publisher confirms, as many in flight.
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "brokers.h"
#include "host/host.h"
#include "rabbitmq/sink.h"

namespace dovetail::bench {

namespace {

constexpr std::size_t kEvents = 30'000;
constexpr std::size_t kInFlight = 4000;
constexpr const char* kQueue = "bench";

amqp_bytes_t bytes(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

class BareClient {
 public:
  explicit BareClient(const servers::Server& server) : state_(amqp_new_connection()) {
    amqp_socket_t* const socket = amqp_tcp_socket_new(state_);
    require(amqp_socket_open(socket, "127.0.0.1", server.port()) == AMQP_STATUS_OK,
            "rabbitmq-c cannot connect");
    const amqp_rpc_reply_t reply =
        amqp_login(state_, "/", 0, 131'072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    require(reply.reply_type == AMQP_RESPONSE_NORMAL, "rabbitmq-c cannot log in");
    amqp_channel_open(state_, 1);
  }
  BareClient(const BareClient&) = delete;
  BareClient& operator=(const BareClient&) = delete;
  ~BareClient() {
    amqp_connection_close(state_, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(state_);
  }

  // A new and empty queue.
  void make_queue() {
    amqp_queue_delete(state_, 1, amqp_cstring_bytes(kQueue), 0, 0);
    amqp_queue_declare(state_, 1, amqp_cstring_bytes(kQueue), 0, 1, 0, 0, amqp_empty_table);
    require(amqp_get_rpc_reply(state_).reply_type == AMQP_RESPONSE_NORMAL, "no queue");
  }

  void publish_all(const std::vector<const Event*>& events) {
    amqp_confirm_select(state_, 1);
    std::size_t sent = 0;
    while (confirmed_ < events.size()) {
      while (sent < events.size() && sent - confirmed_ < kInFlight) {
        publish(*events[sent++]);
        // What has come is taken now and then, or both sides wait for each other.
        if (sent % 64 == 0) take_confirms(timeval{0, 0});
      }
      take_confirms(timeval{10, 0});
    }
  }

  // The size of the first message in the queue: its headers, and its body.
  std::int64_t message_bytes() {
    const amqp_rpc_reply_t reply = amqp_basic_get(state_, 1, amqp_cstring_bytes(kQueue), 1);
    require(reply.reply_type == AMQP_RESPONSE_NORMAL && reply.reply.id == AMQP_BASIC_GET_OK_METHOD,
            "the queue is empty");
    amqp_message_t message;
    amqp_read_message(state_, 1, &message, 0);
    std::size_t size =
        message.body.len + message.properties.content_type.len + message.properties.message_id.len;
    const amqp_table_t& headers = message.properties.headers;
    for (int i = 0; i < headers.num_entries; ++i)
      size += headers.entries[i].key.len + headers.entries[i].value.value.bytes.len;
    amqp_destroy_message(&message);
    return static_cast<std::int64_t>(size);
  }

 private:
  void publish(const Event& event) {
    const std::string id = event.id.to_string();
    const std::string version = std::to_string(event.aggregate_version);
    const std::array<std::pair<std::string_view, std::string_view>, 9> values = {{
        {"cloudEvents:specversion", "1.0"},
        {"cloudEvents:id", id},
        {"cloudEvents:source", "dovetail"},
        {"cloudEvents:type", event.type},
        {"cloudEvents:time", "2026-01-01T00:00:00.000000Z"},
        {"cloudEvents:subject", event.aggregate_id},
        {"cloudEvents:aggregatetype", event.aggregate_type},
        {"cloudEvents:aggregateversion", version},
        {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    }};
    std::array<amqp_table_entry_t, values.size()> entries{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      entries[i].key = bytes(values[i].first);
      entries[i].value.kind = AMQP_FIELD_KIND_UTF8;
      entries[i].value.value.bytes = bytes(values[i].second);
    }
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
                        AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
                        AMQP_BASIC_CONTENT_TYPE_FLAG;
    properties.headers = {static_cast<int>(entries.size()), entries.data()};
    properties.delivery_mode = 2;
    properties.message_id = bytes(id);
    properties.timestamp = 1'767'225'600;
    properties.content_type = bytes(event.content_type);
    require(amqp_basic_publish(state_, 1, amqp_empty_bytes, amqp_cstring_bytes(kQueue), 1, 0,
                               &properties, bytes(event.payload)) == AMQP_STATUS_OK,
            "rabbitmq-c cannot publish");
  }

  // Takes what is there, and waits at most `limit` for the first.
  void take_confirms(timeval limit) {
    amqp_maybe_release_buffers(state_);
    amqp_frame_t frame;
    while (amqp_simple_wait_frame_noblock(state_, &frame, &limit) == AMQP_STATUS_OK) {
      require(
          frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_ACK_METHOD,
          "a message was not confirmed");
      const auto* const ack = static_cast<const amqp_basic_ack_t*>(frame.payload.method.decoded);
      // A single one of a server that never confirms out of order here.
      confirmed_ = std::max<std::size_t>(confirmed_, ack->delivery_tag);
      limit = {0, 0};
    }
  }

  amqp_connection_state_t state_;
  std::size_t confirmed_ = 0;
};

Speed bare_loop(const servers::Server& server, const std::vector<const Event*>& events) {
  BareClient client(server);
  client.make_queue();
  return measured(events.size(), [&] { client.publish_all(events); });
}

std::unique_ptr<Sink> our_sink(const servers::Server& server) {
  BareClient(server).make_queue();
  rabbitmq::Options options;
  options.port = static_cast<std::uint16_t>(server.port());
  auto sink = rabbitmq::RabbitmqSink::make(options, system_clock());
  require(sink.has_value(), sink ? "" : sink.error().text);
  return std::move(*sink);
}

}  // namespace

Place rabbitmq_place() { return {"rabbitmq", kQueue, our_sink}; }

void bench_rabbitmq(Report& report) {
  const Broker broker("rabbitmq");
  const BenchEvents events(kEvents, kQueue);
  compare(report,
          {"rabbitmq", [&] { return our_sink(broker.server()); },
           [&](const auto& all) { return bare_loop(broker.server(), all); },
           [&] { return BareClient(broker.server()).message_bytes(); }},
          events);
}

}  // namespace dovetail::bench
