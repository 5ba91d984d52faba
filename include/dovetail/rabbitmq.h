// Queues of RabbitMQ as the origin of a consumer's events.
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
  std::string user = "guest";  // empty, with a certificate of the client: that tells who we are
  std::string password = "guest";
  std::vector<std::string> queues;
  bool declare = false;   // makes queues that are missing: durable quorum queues, one consumer each
  bool exclusive = true;  // keeps other consumers off a classic queue, so that its order holds
  std::uint16_t prefetch = 2000;  // messages held and not settled, for each queue

  bool tls = false;           // the server's certificate and the name in it are always checked
  std::string ca_file{};      // PEM; empty: what the system trusts
  std::string cert_file{};    // PEM, of the client; with key_file
  std::string key_file{};     // PEM
  std::string server_name{};  // in the certificate; empty: the host

  // Headers in which other publishers' messages carry what those of dovetail carry elsewhere.
  std::string id_header{};
  std::string type_header{};
  std::string aggregate_type_header{};
  std::string aggregate_id_header{};
};

// Asks nobody. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::rabbitmq
