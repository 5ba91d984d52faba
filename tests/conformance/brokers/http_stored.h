// Requests to the test server, as events.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/message/message.h"
#include "memory/stored_event.h"
#include "server/test_endpoint.h"
#include "servers/servers.h"

namespace dovetail::conformance {

// Headers that curl and our sink add themselves.
inline bool is_about_http(const std::string& name) {
  for (const char* one :
       {"Host", "User-Agent", "Accept", "Content-Length", "content-type", "idempotency-key"})
    if (name == one) return true;
  return false;
}

// Requests to PATH/TOPIC with a 2xx answer, in the order of arrival.
inline std::vector<StoredEvent> stored_at(const servers::Server& server, const std::string& path) {
  std::vector<StoredEvent> stored;
  for (const http::Recorded& one : http::requests_to(server, path + "/")) {
    if (one.status / 100 != 2) continue;
    std::vector<MessageHeader> headers;
    for (const auto& [name, value] : one.headers)
      if (!is_about_http(name)) headers.push_back({name, value});
    const std::string content_type = one.header("content-type");
    const std::string topic = one.path.substr(path.size() + 1);
    ReceivedMessage message;
    message.topic = std::string_view(topic).substr(0, topic.find('?'));
    message.headers = headers;
    message.payload = one.body;
    message.content_type = content_type;
    Batch batch;
    MessageReader({}, kHttpDialect).read(message, EventId{}, batch);
    EXPECT_EQ(batch.events()[0].defect, "");
    stored.emplace_back(batch.events()[0]);
  }
  return stored;
}

}  // namespace dovetail::conformance
