// Slots and publications for reading the WAL, by SQL.
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

// The publication of dovetail.outbox; the schema creates it.
inline constexpr std::string_view kOutboxPublication = "dovetail_outbox";

// "dovetail_NAME_1a2b3c4d": the same at every start of a relay, different in each database.
std::string slot_name(std::string_view relay, std::string_view database);
// Different for each stream: the server may still have the slot of a broken connection.
std::string temporary_slot_name(std::string_view relay, std::string_view database);

struct SlotState {
  std::string name{};
  std::string database{};
  std::string plugin{};
  bool active = false;
  std::int32_t active_pid = 0;
  bool temporary = false;
  bool synced = false;         // copied from the former primary (17)
  std::string wal_status{};    // reserved, extended, unreserved, lost
  std::string invalidation{};  // why it is lost, if the server tells (17)
  WalPosition confirmed{};     // what we reported last
  WalPosition kept_from{};     // the server keeps WAL from here on
  std::int64_t retained_bytes = 0;
  std::int64_t safe_bytes = -1;  // how much can be written before it is lost; -1: no limit
};

// nullopt: no slot has that name.
Result<std::optional<SlotState>> find_slot(Connection& connection, std::string_view name);
// All slots of dovetail in this cluster, by the prefix of their names.
Result<std::vector<SlotState>> list_slots(Connection& connection);
// Who owns a lane.
struct LaneHeld {
  std::string relay{};
  std::uint32_t lane = 0;
  std::int64_t epoch = kUnfenced;  // of the lease, if there is one
};

// Ok if it does not exist. unavailable: it is in use, and the text names the process; or another
// relay has the lane.
Status drop_slot(Connection& connection, std::string_view name, const LaneHeld& held = {});

// What the server waits for before it makes the slot that `backend` asked for (Replication's
// backend_pid()), for people: a process or a prepared transaction. nullopt: nothing.
Result<std::optional<std::string>> who_holds_up(Connection& connection, std::int32_t backend);

// The content of a snapshot that a connection has exported as `name`, for example with a new slot.
Result<std::string> import_snapshot(Connection& connection, const std::string& name);
// Whether everything in a snapshot is visible to new statements. A snapshot made from the WAL shows
// a transaction once its commit is written there; others see it later, after the server has waited
// for its standbys.
Result<bool> is_visible(Connection& connection, const std::string& snapshot);

// Why this server and role cannot stream that publication's WAL; nullopt: they can,
// as far as the catalogue tells. Without a publication, only server and role are
// checked. The text says what to change. `connection` must have the role that
// replicates.
Result<std::optional<std::string>> why_not_streamed(Connection& connection,
                                                    std::string_view publication);

}  // namespace dovetail::postgres
