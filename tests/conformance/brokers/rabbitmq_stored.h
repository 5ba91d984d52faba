// The content of a RabbitMQ queue, by its management API.
#pragma once

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "memory/stored_event.h"
#include "rabbitmq/test_broker.h"

namespace dovetail::conformance {

// Read by the CloudEvents binding and the management API only, without our code.
inline StoredEvent as_event(const Json& message) {
  const Json properties = message.get("properties");
  const Json headers = properties.get("headers");
  const auto attribute = [&headers](const std::string& name) {
    return headers.get("cloudEvents:" + name).text();
  };
  StoredEvent event;
  event.id = EventId::parse(properties.get("message_id").text()).value_or(EventId{});
  EXPECT_EQ(attribute("id"), properties.get("message_id").text());
  EXPECT_EQ(properties.get("delivery_mode").text(), "2");
  event.topic = message.get("routing_key").text();
  event.aggregate_type = attribute("aggregatetype");
  event.aggregate_id = attribute("subject");
  event.type = attribute("type");
  event.content_type = properties.get("content_type").text();
  event.payload = rabbitmq::from_base64(message.get("payload").text());
  const std::string version = attribute("aggregateversion");
  event.aggregate_version = version.empty() ? 0 : std::stoll(version);
  std::vector<Header> own;
  auto fields = nlohmann::json::parse(headers.raw(), nullptr, false);
  if (!fields.is_object()) fields = nlohmann::json::object();
  for (const auto& [name, value] : fields.items()) {
    if (!name.starts_with("cloudEvents:") && name != "x-delivery-count")
      own.push_back({name, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  if (!own.empty()) event.headers = *encode_headers(own);
  return event;
}

inline std::vector<StoredEvent> stored_in(const rabbitmq::TestBroker& broker,
                                          const std::string& queue) {
  std::vector<StoredEvent> events;
  for (const Json& message : broker.messages(queue)) events.push_back(as_event(message));
  return events;
}

// The same by rabbitmq-c's own calls, without our code: for many messages, because the management
// API is slow. Leaves them in the queue.
class PlainReader {
 public:
  explicit PlainReader(const rabbitmq::Options& options) : state_(amqp_new_connection()) {
    amqp_socket_t* const socket = amqp_tcp_socket_new(state_);
    EXPECT_EQ(amqp_socket_open(socket, options.host.c_str(), options.port), 0);
    const amqp_rpc_reply_t reply =
        amqp_login(state_, options.virtual_host.c_str(), 0, 131'072, 0, AMQP_SASL_METHOD_PLAIN,
                   options.user.c_str(), options.password.c_str());
    EXPECT_EQ(reply.reply_type, AMQP_RESPONSE_NORMAL);
    amqp_channel_open(state_, 1);
  }
  PlainReader(const PlainReader&) = delete;
  PlainReader& operator=(const PlainReader&) = delete;
  ~PlainReader() {
    amqp_connection_close(state_, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(state_);
  }

  std::vector<StoredEvent> all(const std::string& queue) {
    const amqp_bytes_t name = amqp_cstring_bytes(queue.c_str());
    const amqp_queue_declare_ok_t* found =
        amqp_queue_declare(state_, 1, name, 1, 0, 0, 0, amqp_empty_table);
    EXPECT_NE(found, nullptr);
    const std::uint32_t count = found == nullptr ? 0 : found->message_count;
    amqp_basic_consume(state_, 1, name, amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    std::vector<StoredEvent> events;
    while (events.size() < count) {
      amqp_maybe_release_buffers(state_);
      amqp_envelope_t envelope;
      timeval limit{30, 0};
      const amqp_rpc_reply_t reply = amqp_consume_message(state_, &envelope, &limit, 0);
      EXPECT_EQ(reply.reply_type, AMQP_RESPONSE_NORMAL);
      if (reply.reply_type != AMQP_RESPONSE_NORMAL) break;
      events.push_back(as_event(envelope));
      amqp_destroy_envelope(&envelope);
    }
    return events;
  }

 private:
  static std::string text(const amqp_bytes_t& bytes) {
    return {static_cast<const char*>(bytes.bytes), bytes.len};
  }
  static StoredEvent as_event(const amqp_envelope_t& envelope) {
    const amqp_basic_properties_t& properties = envelope.message.properties;
    StoredEvent event;
    event.id = EventId::parse(text(properties.message_id)).value_or(EventId{});
    event.topic = text(envelope.routing_key);
    event.content_type = text(properties.content_type);
    event.payload = text(envelope.message.body);
    for (int i = 0; i < properties.headers.num_entries; ++i) {
      const amqp_table_entry_t& entry = properties.headers.entries[i];
      const std::string name = text(entry.key);
      if (name == "cloudEvents:aggregatetype") event.aggregate_type = text(entry.value.value.bytes);
      if (name == "cloudEvents:subject") event.aggregate_id = text(entry.value.value.bytes);
      if (name == "cloudEvents:type") event.type = text(entry.value.value.bytes);
    }
    return event;
  }

  amqp_connection_state_t state_;
};

}  // namespace dovetail::conformance
