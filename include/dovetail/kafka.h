// Kafka topics as the origin of a consumer's events.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dovetail/broker.h"
#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::kafka {

// Without a user, there is no SASL.
struct ReadOptions : net::Access {
  // "host:port,host:port": some brokers of the cluster; they name the others.
  std::string brokers{};
  std::string sasl_mechanism = "PLAIN";  // or SCRAM-SHA-256, SCRAM-SHA-512

  std::vector<std::string> topics{};  // a name that begins with '^' is a regular expression
  std::string group{};                // the consumer group; the cluster keeps its offsets
  bool from_end = false;              // if the group has no offset yet: read new messages only
  ForeignNames foreign{};

  // Properties of librdkafka. rejected if one would break dovetail's guarantees.
  std::map<std::string, std::string, std::less<>> properties{};
};

// Does not connect. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::kafka
