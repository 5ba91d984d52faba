// The content of a Redis stream, by the test's own commands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/message/message.h"
#include "memory/stored_event.h"
#include "redis/test_server.h"

namespace dovetail::conformance {

inline void read_entry(const MessageReader& reader, redis::Value fields, Batch& batch) {
  std::vector<MessageHeader> headers;
  ReceivedMessage message;
  message.topic = "orders";
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
    const std::string_view name = fields.at(i).text();
    const std::string_view value = fields.at(i + 1).text();
    if (name == "data") {
      message.payload = value;
    } else if (name == "key") {
      message.key = value;
    } else {
      headers.push_back({name, value});
    }
  }
  message.headers = headers;
  reader.read(message, EventId{}, batch);
}

// The entries of the stream "orders", in order.
inline std::vector<StoredEvent> stored_in(redis::TestDatabase& database) {
  const redis::Reply reply = database.run({"XRANGE", "orders", "-", "+"});
  const MessageReader reader({}, kRedisDialect);
  Batch batch;
  for (std::size_t i = 0; i < reply.value().size(); ++i)
    read_entry(reader, reply.value().at(i).at(1), batch);
  std::vector<StoredEvent> events;
  for (const Event& event : batch.events()) events.emplace_back(event);
  return events;
}

}  // namespace dovetail::conformance
