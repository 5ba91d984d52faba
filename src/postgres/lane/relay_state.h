// Writes the reports of relays to dovetail.relay_state and dovetail.mapped_backlog. They are for
// people and written without fsync.
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

// Counts the pending rows of a mapped table and writes the count.
Status write_backlog(Connection& connection, const LaneName& lane, const TableMapping& mapping);

}  // namespace dovetail::postgres
