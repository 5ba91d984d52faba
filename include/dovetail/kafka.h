// Topics of Kafka as the origin of a consumer's events.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::kafka {

struct ReadOptions {
  std::string brokers;  // "host:port,host:port": any of the cluster, it tells of the others
  std::vector<std::string> topics;  // one that begins with '^' is a regular expression
  std::string group;                // of consumers; the cluster keeps its offsets
  bool from_end = false;  // where the group has no offset yet: only what comes from now on

  bool tls = false;         // the broker's certificate and its host name are always checked
  std::string ca_file{};    // PEM; empty: what the system trusts
  std::string cert_file{};  // PEM, of the client; with key_file
  std::string key_file{};   // PEM
  std::string user{};       // empty: no SASL
  std::string password{};
  std::string sasl_mechanism = "PLAIN";  // or SCRAM-SHA-256, SCRAM-SHA-512

  // Headers in which other publishers' messages carry what those of dovetail carry elsewhere.
  std::string id_header{};
  std::string type_header{};
  std::string aggregate_type_header{};
  std::string aggregate_id_header{};

  // Of librdkafka, by its names. Those that dovetail's promises rest on are refused.
  std::map<std::string, std::string> properties{};
};

// Asks nobody. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::kafka
