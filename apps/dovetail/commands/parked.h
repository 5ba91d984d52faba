// Parked events, for the operator's commands and the demo.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assembly/database.h"
#include "commands/command.h"
#include "documents/events.h"

namespace dovetail::app {

struct ParkedOptions {
  std::string store;
  std::string relay;
  std::vector<std::string> ids;
  std::string key;
  bool all = false;
  bool yes = false;
  std::string reason;
  std::uint64_t limit = 50;
};

// The events that need a decision: the first event of each blocked key that `options` select.
// `config` must outlive the result. rejected: an id is not parked, or waits behind another one.
Expected<std::vector<ParkedPlace>> select_heads(const config::Config& config,
                                                const ParkedOptions& options);

// Replays them; returns how many.
Expected<std::uint64_t> replay(const std::vector<ParkedPlace>& heads);

}  // namespace dovetail::app
