// Redis streams as the origin of a consumer's events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::redis {

struct ReadOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  std::uint32_t database = 0;
  std::vector<std::string> streams;
  std::string group;            // the consumer group; created if missing, with its streams
  std::string consumer{};       // must stay the same after a restart; empty: the host's name
  bool from_end = false;        // a new group starts with new entries
  bool exclusive = true;        // waits for entries that other consumers hold; keeps the order
  bool delete_settled = false;  // also deletes from the stream: only if no other group reads it
  std::string payload_field = "data";
  std::string key_header = "key";  // the field with the key
  // Entries that another consumer has not acknowledged for this long are taken over.
  std::chrono::milliseconds redeliver_after{60'000};
  std::size_t prefetch = 500;  // entries of each stream that are read at once

  bool tls = false;           // the server's certificate and its name are always checked
  std::string ca_file{};      // PEM; empty: the system's certificate authorities
  std::string cert_file{};    // PEM, the client's certificate; needs key_file
  std::string key_file{};     // PEM
  std::string server_name{};  // the name in the certificate; empty: the host
  std::string user{};         // empty: the server's default user
  std::string password{};     // empty: no AUTH

  // Fields of other publishers' entries that carry the id, the key and the other attributes.
  std::string id_header{};
  std::string type_header{};
  std::string aggregate_type_header{};
  std::string aggregate_id_header{};
};

// Does not connect. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::redis
