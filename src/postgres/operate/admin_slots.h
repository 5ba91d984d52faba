// What an operator asks of the slots through which the server's WAL is read, and does to them.
#pragma once

#include <string>
#include <vector>

#include "postgres/connection/connection.h"
#include "postgres/operate/admin.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {

struct WalSlot : SlotState {
  bool is_here = false;  // in the database that was asked; a slot belongs to one
  std::string relay{};   // that reads through it, or did last; empty: none that is known here
};

// All that dovetail made in this cluster, and those that relays of this database have taken over.
Result<std::vector<WalSlot>> list_wal_slots(Connection& connection);
Result<std::vector<WalSlot>> list_wal_slots(const std::string& url);

// Lets the server forget what it keeps for the slot. rejected: there is no such slot of ours, it
// ends by itself, or a relay of this database reads through it and `force` is not set. unavailable:
// it is in use, or nobody can be asked.
Status drop_wal_slot(const std::string& url, const std::string& name, bool force);

}  // namespace dovetail::postgres
