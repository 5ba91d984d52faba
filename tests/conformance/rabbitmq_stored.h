// What is in a queue of RabbitMQ, as its management API shows it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "memory/stored_event.h"
#include "rabbitmq/test_broker.h"

namespace dovetail::conformance {

// As somebody who knows the CloudEvents binding and the management API, and nothing of ours.
inline StoredEvent as_event(const rabbitmq::Json& message) {
  const rabbitmq::Json& properties = message["properties"];
  const rabbitmq::Json& headers = properties["headers"];
  const auto attribute = [&headers](const std::string& name) {
    return headers["cloudEvents:" + name].text();
  };
  StoredEvent event;
  event.id = EventId::parse(properties["message_id"].text()).value_or(EventId{});
  EXPECT_EQ(attribute("id"), properties["message_id"].text());
  EXPECT_EQ(properties["delivery_mode"].text(), "2");
  event.topic = message["routing_key"].text();
  event.aggregate_type = attribute("aggregatetype");
  event.aggregate_id = attribute("subject");
  event.type = attribute("type");
  event.content_type = properties["content_type"].text();
  event.payload = rabbitmq::from_base64(message["payload"].text());
  const std::string version = attribute("aggregateversion");
  event.aggregate_version = version.empty() ? 0 : std::stoll(version);
  if (!headers["trace"].is_null())
    event.headers = *encode_headers(std::vector<Header>{{"trace", headers["trace"].text()}});
  return event;
}

inline std::vector<StoredEvent> stored_in(const rabbitmq::TestBroker& broker,
                                          const std::string& queue) {
  std::vector<StoredEvent> events;
  for (const rabbitmq::Json& message : broker.messages(queue)) events.push_back(as_event(message));
  return events;
}

}  // namespace dovetail::conformance
