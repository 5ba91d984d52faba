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
  // The streams to check: this one, and those that take any of the subjects, which may have
  // wildcards.
  std::string stream{};
  std::vector<std::string> subjects{};
  std::string durable{};                      // of a source; empty: none
  std::size_t payload_bytes_max = 0;          // the largest that may be published; 0: unknown
  std::optional<Duration> inbox_retention{};  // how long consumers remember; empty: without limit
};

// Only reads. A client cannot see settings of the server's own configuration, such as its sync
// interval. unavailable: the server does not answer.
Result<std::vector<Finding>> examine(const Examined& what);

// How long the streams that `what` names keep messages. Messages that are deleted on
// acknowledgement do not come again.
Result<std::vector<Kept>> retention(const Examined& what);

}  // namespace dovetail::nats
