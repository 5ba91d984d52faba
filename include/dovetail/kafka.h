// Kafka topics as the origin of a consumer's events.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::kafka {

struct ReadOptions {
  std::string brokers;  // "host:port,host:port": some brokers of the cluster; they name the others
  std::vector<std::string> topics;  // a name that begins with '^' is a regular expression
  std::string group;                // the consumer group; the cluster keeps its offsets
  bool from_end = false;            // if the group has no offset yet: read new messages only

  bool tls = false;         // the certificate and the host name of the broker are always checked
  std::string ca_file{};    // PEM; empty: the system's certificate authorities
  std::string cert_file{};  // PEM, the client's certificate; needs key_file
  std::string key_file{};   // PEM
  std::string user{};       // empty: no SASL
  std::string password{};
  std::string sasl_mechanism = "PLAIN";  // or SCRAM-SHA-256, SCRAM-SHA-512

  // Headers of other publishers' messages that carry the id, the key and the other fields.
  std::string id_header{};
  std::string type_header{};
  std::string aggregate_type_header{};
  std::string aggregate_id_header{};

  // Properties of librdkafka. rejected if one would break dovetail's guarantees.
  std::map<std::string, std::string> properties{};
};

// Does not connect. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::kafka
