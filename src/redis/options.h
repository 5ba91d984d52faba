// How to reach a Redis server, and how its streams are used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/clock.h"
#include "core/message/message.h"
#include "dovetail/redis.h"
#include "dovetail/result.h"

namespace dovetail::redis {

// The application's options, and what it need not know. A topic is the name (key) of a stream. An
// entry has one field for the payload, one for the key, and one per header.
struct Options : ReadOptions {
  // Behaviour of the sink
  MessageOptions message{};
  bool declare = true;  // false: an event waits until its stream exists
  std::size_t payload_bytes_max = 64 << 20;
  std::uint32_t wait_replicas = 0;  // that must have an event before it is confirmed

  // Times
  Duration connect_timeout = std::chrono::seconds(5);   // also for each reply in open()
  Duration request_timeout = std::chrono::seconds(10);  // for replies that a source waits for
};

// rejected: two field names are equal, or a template is wrong.
Status check(const Options& options);

}  // namespace dovetail::redis
