// Redis streams as the origin of a consumer's events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dovetail/broker.h"
#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::redis {

// Without a user, the server's default user logs in; without a password, nobody does.
struct ReadOptions : net::Access {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  std::uint32_t database = 0;

  std::vector<std::string> streams{};
  std::string group{};          // the consumer group; created if missing, with its streams
  std::string consumer{};       // must stay the same after a restart; empty: the host's name
  bool from_end = false;        // a new group starts with new entries
  bool exclusive = true;        // waits for entries that other consumers hold; keeps the order
  bool delete_settled = false;  // also deletes from the stream: only if no other group reads it
  std::string payload_field = "data";
  std::string key_header = "key";  // the field with the key
  ForeignNames foreign{};
  // Entries that another consumer has not acknowledged for this long are taken over.
  std::chrono::microseconds redeliver_after = std::chrono::seconds(60);
  std::size_t prefetch = 500;  // entries of each stream that are read at once
};

// Does not connect. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::redis
