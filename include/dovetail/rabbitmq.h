// RabbitMQ queues as the origin of a consumer's events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::rabbitmq {

struct ReadOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: 5672, with TLS 5671
  std::string virtual_host = "/";
  std::string user = "guest";  // empty: the client's certificate is the log-in
  std::string password = "guest";
  std::vector<std::string> queues;
  bool declare = false;   // creates missing queues: durable quorum queues with one consumer each
  bool exclusive = true;  // keeps other consumers off a classic queue, which keeps its order
  std::uint16_t prefetch = 2000;  // messages in flight for each queue

  bool tls = false;           // the server's certificate and its name are always checked
  std::string ca_file{};      // PEM; empty: the system's certificate authorities
  std::string cert_file{};    // PEM, the client's certificate; needs key_file
  std::string key_file{};     // PEM
  std::string server_name{};  // the name in the certificate; empty: the host

  // Headers of other publishers' messages that carry the id, the key and the other fields.
  std::string id_header{};
  std::string type_header{};
  std::string aggregate_type_header{};
  std::string aggregate_id_header{};
};

// Does not connect. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::rabbitmq
