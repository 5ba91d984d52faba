// Slots and publications, from the side of SQL: what the log is read through.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/relay/lease.h"
#include "postgres/connection/connection.h"
#include "postgres/stream/position.h"

namespace dovetail::postgres {

// The publication of dovetail.outbox, which the schema makes.
inline constexpr std::string_view kOutboxPublication = "dovetail_outbox";

// "dovetail_NAME_1a2b3c4d": the same for a relay at every start, another one in another database.
std::string slot_name(std::string_view relay, std::string_view database);
// One of its own for each stream: the server may still hold that of a connection that broke.
std::string temporary_slot_name(std::string_view relay, std::string_view database);

struct SlotState {
  std::string name{};
  std::string database{};
  std::string plugin{};
  bool active = false;
  std::int32_t active_pid = 0;
  bool temporary = false;
  bool synced = false;         // came from the primary that was before (17)
  std::string wal_status{};    // reserved, extended, unreserved, lost
  std::string invalidation{};  // why it is lost, where the server says so (17)
  WalPosition confirmed{};     // what we reported last
  WalPosition kept_from{};     // the server keeps its log from here on
  std::int64_t retained_bytes = 0;
  std::int64_t safe_bytes = -1;  // that may still be written before it is lost; -1: no limit
};

// nullopt: there is none of that name.
Result<std::optional<SlotState>> find_slot(Connection& connection, std::string_view name);
// All that dovetail made in this cluster, by the prefix of their names.
Result<std::vector<SlotState>> list_slots(Connection& connection);
// Who holds a lane.
struct LaneHeld {
  std::string relay{};
  std::uint32_t lane = 0;
  std::int64_t epoch = kUnfenced;  // of the lease, when there is one
};

// Ok when there is none. unavailable: somebody uses it, and the text names the process; or the lane
// has passed to another relay.
Status drop_slot(Connection& connection, std::string_view name, const LaneHeld& held = {});

// Whom the server waits for before it makes the slot that `backend` asked for, Replication's
// backend_pid(), as text for people: a process or a prepared transaction. nullopt: nobody.
Result<std::optional<std::string>> who_holds_up(Connection& connection, std::int32_t backend);

// What the snapshot shows that a connection has exported under this name, as when it made a slot.
Result<std::string> import_snapshot(Connection& connection, const std::string& name);
// Whether everything that a snapshot shows is visible to new statements. One that was made from the
// WAL shows a transaction as soon as its commit is written there; to others it appears later, when
// the server has waited for its standbys.
Result<bool> is_visible(Connection& connection, const std::string& snapshot);

// Why this server and this role cannot stream the log of that publication; nullopt: they can, as
// far as the catalogue tells. Without a publication only server and role are looked at. The text
// says what to change. `connection` has the role that is to
// replicate.
Result<std::optional<std::string>> why_not_streamed(Connection& connection,
                                                    std::string_view publication);

}  // namespace dovetail::postgres
