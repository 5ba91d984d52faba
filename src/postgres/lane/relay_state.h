// What relays say about themselves, as dovetail.relay_state and dovetail.mapped_backlog keep it.
// For people: nobody waits for the disk, and nothing is lost with it.
#pragma once

#include <cstdint>
#include <string>

#include "host/state_recorder.h"
#include "postgres/connection/connection.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

struct LaneName {
  std::string relay;
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;
};

// See sql/relay_state.h.
Status write_state(Connection& connection, const LaneName& lane, const std::string& owner,
                   const SpokenState& spoken, TimePoint now);

// Counts what is pending of a table of its own, and writes it down.
Status write_backlog(Connection& connection, const LaneName& lane, const TableMapping& mapping);

}  // namespace dovetail::postgres
