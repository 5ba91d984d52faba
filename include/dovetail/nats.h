// A NATS JetStream stream as the origin of a consumer's events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::nats {

struct Server {
  std::string host = "127.0.0.1";  // an IPv6 address without brackets
  std::uint16_t port = 4222;
};

struct ReadOptions {
  std::vector<Server> servers{Server{}};  // of one cluster; tried in turn
  std::string stream{};                   // empty: the stream that takes the first of `subjects`
  std::vector<std::string> subjects{};    // empty: all of the stream
  std::string group;            // the name of the durable consumer; one process at a time uses it
  std::string domain{};         // of JetStream; empty: the server's default
  bool declare = false;         // creates a missing stream from `subjects`
  bool from_end = false;        // if there is no such consumer yet: read new messages only
  bool key_in_subject = false;  // the last token is the key, not a part of the topic
  std::string key_header = "Message-Key";  // of messages of other publishers
  // A message that is not acknowledged in this time comes again. Must exceed the longest handler.
  // An existing durable consumer keeps its own value.
  std::chrono::milliseconds redeliver_after{30'000};
  std::size_t prefetch = 2000;  // messages that are read ahead
  // The subject of answers. Change it if the user may not subscribe to "_INBOX.>".
  std::string inbox_prefix = "_INBOX";

  bool tls = false;           // the server's certificate and its name are always checked
  std::string ca_file{};      // PEM; empty: the system's certificate authorities
  std::string cert_file{};    // PEM, the client's certificate; needs key_file
  std::string key_file{};     // PEM
  std::string server_name{};  // the name in the certificate; empty: the host
  std::string user{};
  std::string password{};
  std::string token{};  // instead of user and password

  // Headers of other publishers' messages that carry the id, the key and the other fields.
  std::string id_header{};
  std::string type_header{};
  std::string aggregate_type_header{};
  std::string aggregate_id_header{};
};

// Does not connect. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::nats
