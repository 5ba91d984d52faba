// The content of a Kafka topic as events.
#pragma once

#include <vector>

#include "core/message/message.h"
#include "kafka/test_cluster.h"
#include "memory/stored_event.h"

namespace dovetail::conformance {

inline std::vector<StoredEvent> events_of(const std::vector<kafka::RawMessage>& messages) {
  const MessageReader reader({}, kKafkaDialect);
  Batch batch;
  for (const kafka::RawMessage& raw : messages) {
    std::vector<MessageHeader> headers;
    for (const auto& [name, value] : raw.headers) headers.push_back({name, value});
    ReceivedMessage message;
    message.topic = "orders";
    message.key = raw.key;
    message.headers = headers;
    message.payload = raw.payload;
    reader.read(message, EventId{}, batch);
  }
  std::vector<StoredEvent> events;
  for (const Event& event : batch.events()) events.emplace_back(event);
  return events;
}

}  // namespace dovetail::conformance
