// How to reach and use a Kafka cluster, as a sink and as a source.
#pragma once

#include <cstddef>
#include <string>

#include "core/clock.h"
#include "core/message/message.h"
#include "dovetail/kafka.h"

namespace dovetail::kafka {

// The application's options, and what it need not know.
struct Options : ReadOptions {
  // Behaviour
  MessageOptions message{};
  std::string topic_prefix{};  // stands before every topic; events do not show it
  Duration connect_timeout = std::chrono::seconds(10);

  // Of a source.
  bool skip_deleted = false;  // if the topic deleted unread events, skip them instead of halting

  // For doctor.
  bool single_node = false;  // the cluster has no replicas on purpose

  // Performance
  // How long a batch waits for more messages. 0: it takes what has piled up while the last request
  // was out.
  Duration linger{0};
  // Payload, key and headers together; larger messages are refused unsent. By default a broker
  // accepts 1,048,588 bytes including framing.
  std::size_t message_bytes_max = 1'048'000;
};

}  // namespace dovetail::kafka
