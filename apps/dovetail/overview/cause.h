// What an error that a relay reported is about. Relays keep a text only; this reads it.
#pragma once

#include <string_view>

#include "config/config.h"
#include "overview/problems.h"

namespace dovetail::app {

struct Cause {
  ProblemKind kind = ProblemKind::relay_backing_off;
  const config::StoreConfig* store = nullptr;  // the store it is about; null: not known
};

// `relay` may be null: the config does not have it. `is_consumer`: it calls handlers.
Cause cause_of(std::string_view error, bool is_halted, const config::Config& config,
               const config::StoreConfig& home, const config::RelayConfig* relay, bool is_consumer);

bool is_disk_full(std::string_view error);

// The same for the failure of a database that was asked itself.
ProblemKind cause_of_database(std::string_view error, const config::StoreConfig& store,
                              bool is_unavailable);

}  // namespace dovetail::app
