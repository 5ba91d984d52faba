// How a Redis server is reached, and what is wanted of its streams.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/message/message.h"
#include "dovetail/result.h"

namespace dovetail::redis {

struct Options {
  // The server
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  std::uint32_t database = 0;
  std::string user{};      // empty: the server's default user
  std::string password{};  // empty: no AUTH
  bool tls = false;
  std::string ca_file{};      // empty: what the system trusts
  std::string cert_file{};    // of the client; with key_file
  std::string key_file{};     // of the client
  std::string server_name{};  // that the certificate must be for; empty: host

  // Messages. A topic is the name (key) of a stream; an entry has one field for the payload, one
  // for the key, and one for each header.
  MessageOptions message{};
  ForeignNames foreign{};
  std::string payload_field = "data";
  std::string key_field = "key";

  // Behaviour of the sink
  bool declare = true;  // false: an event for a stream that is not there waits for it
  std::size_t payload_bytes_max = 64 << 20;
  std::uint32_t wait_replicas = 0;  // that must have an event before it is confirmed

  // Behaviour of the source
  std::vector<std::string> streams{};
  std::string group{};
  std::string consumer{};       // must outlive a restart; empty: the host's name
  bool from_end = false;        // a group that is made now begins behind what the stream holds
  bool exclusive = true;        // waits for what other consumers of the group hold: keeps order
  bool delete_settled = false;  // also from the stream: only where no other group reads it
  // What another consumer has held for so long, unacknowledged, is taken over.
  Duration claim_after = std::chrono::seconds(60);

  // Performance
  std::size_t fetch_events_max = 500;                  // of each stream, in one answer
  Duration connect_timeout = std::chrono::seconds(5);  // also of each reply in open()
  Duration reply_timeout = std::chrono::seconds(10);   // of those that a source waits for
};

// rejected: names of fields that cannot be told apart, or a template that is wrong.
Status check(const Options& options);

}  // namespace dovetail::redis
