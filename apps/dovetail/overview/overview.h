// What all stores of the config file said at one moment.
#pragma once

#include <optional>
#include <vector>

#include "assembly/database.h"
#include "commands/command.h"
#include "config/config.h"
#include "core/clock.h"

namespace dovetail::app {

// One of the two is there for a database that was asked. A broker is not asked.
struct StoreView {
  const config::StoreConfig* store = nullptr;
  std::optional<assembly::StoreStatus> status{};
  std::optional<Failure> failure{};    // why there is no status
  std::optional<WallTime> since{};     // of the failure; empty: not known
  std::optional<std::string> clock{};  // what is wrong with the clocks; empty: nothing known
};

// The config must outlive it.
struct Overview {
  const config::Config* config = nullptr;
  WallTime at{};
  std::vector<StoreView> stores{};  // in the order of the config
};

// Asks a database; the text of a failure names the store.
Expected<assembly::StoreStatus> ask(const config::StoreConfig& store);
// Asks all databases, one after the other.
Overview look(const config::Config& config);

// What a relay does: "standby", "delivering", "backing_off", "halted", "unknown" (it runs) or
// "stopped". A report is valid only while its process lives, judged by its lease.
std::string state_of(Duration lease_left, const std::optional<SaidState>& said);
// The same for the whole relay; one that an operator holds has a state of hold_state().
std::string state_of(const assembly::RelayStatus& relay);
// Whether the number of pending events is known. A broker does not tell it.
bool knows_pending(const assembly::RelayStatus& relay);
// The relay or consumer of that name that keeps its state in `store`; null: the config has none.
const config::RelayConfig* configured(const config::Config& config,
                                      const config::StoreConfig& store, std::string_view name);

}  // namespace dovetail::app
