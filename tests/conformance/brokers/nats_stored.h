// The content of a NATS stream as events.
#pragma once

#include <string>
#include <vector>

#include "core/message/message.h"
#include "host/host.h"
#include "memory/stored_event.h"
#include "nats/protocol.h"
#include "nats/test_server.h"

namespace dovetail::conformance {

inline std::vector<StoredEvent> stored_in(nats::Operator& admin, const std::string& stream) {
  const MessageReader reader({}, kNatsDialect);
  Batch batch;
  for (const nats::Operator::Stored& one : admin.stored(stream)) {
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

}  // namespace dovetail::conformance
