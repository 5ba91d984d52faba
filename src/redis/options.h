// How to reach a Redis server, and how its streams are used.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/message/message.h"
#include "dovetail/result.h"
#include "host/stream.h"

namespace dovetail::redis {

// Without a user, the server's default user logs in; without a password, nobody does.
struct Options : net::Access {
  // The server
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  std::uint32_t database = 0;

  // Messages. A topic is the name (key) of a stream. An entry has one field for the payload, one
  // for the key, and one per header.
  MessageOptions message{};
  ForeignNames foreign{};
  std::string payload_field = "data";
  std::string key_field = "key";

  // Behaviour of the sink
  bool declare = true;  // false: an event waits until its stream exists
  std::size_t payload_bytes_max = 64 << 20;
  std::uint32_t wait_replicas = 0;  // that must have an event before it is confirmed

  // Behaviour of the source
  std::vector<std::string> streams{};
  std::string group{};
  std::string consumer{};       // must stay the same after a restart; empty: the host's name
  bool from_end = false;        // a new group starts with new entries
  bool exclusive = true;        // waits for entries that other consumers hold; keeps the order
  bool delete_settled = false;  // also deletes from the stream: only if no other group reads it
  // Entries that another consumer has held unacknowledged for this long are taken over.
  Duration claim_after = std::chrono::seconds(60);

  // Performance
  std::size_t fetch_events_max = 500;                  // of each stream, in one answer
  Duration connect_timeout = std::chrono::seconds(5);  // also for each reply in open()
  Duration reply_timeout = std::chrono::seconds(10);   // for replies that a source waits for
};

// rejected: two field names are equal, or a template is wrong.
Status check(const Options& options);

}  // namespace dovetail::redis
