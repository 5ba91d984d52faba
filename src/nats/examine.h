// What is unsafe about a NATS server, its streams and our consumer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "dovetail/result.h"
#include "nats/options.h"

namespace dovetail::nats {

struct Examined {
  ConnectionOptions connection{};
  std::string domain{};
  bool jetstream = true;
  // Which streams are looked at: this one, and those that take any of the subjects, which may have
  // wildcards.
  std::string stream{};
  std::vector<std::string> subjects{};
  std::string durable{};                      // of a source; empty: none
  std::size_t payload_bytes_max = 0;          // that may be published; 0: not known
  std::optional<Duration> inbox_retention{};  // how long consumers remember; none: for ever
};

// Asks and changes nothing. What only the server's own configuration says, such as how often it
// syncs to the disk, cannot be seen by a client. unavailable: the server does not answer.
Result<std::vector<Finding>> examine(const Examined& what);

// How long the streams keep messages that `what` names. Those that a stream deletes when they are
// acknowledged do not come again.
Result<std::vector<Kept>> retention(const Examined& what);

}  // namespace dovetail::nats
