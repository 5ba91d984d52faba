// The replication slots of dovetail in the PostgreSQL stores.
#pragma once

#include <string>
#include <vector>

#include "commands/command.h"
#include "commands/output.h"
#ifdef DOVETAIL_HAS_POSTGRES
#include "postgres/operate/admin_slots.h"
#endif

namespace dovetail::app {

#ifdef DOVETAIL_HAS_POSTGRES

struct ListedSlot {
  const config::StoreConfig* store;
  postgres::WalSlot slot;
};

const char* mode_of(const postgres::WalSlot& slot);
// Of one store, or of all. A slot of a cluster that several stores share is there once.
Expected<std::vector<ListedSlot>> list_slots(const config::Config& config, const std::string& name);
Json json_of(const ListedSlot& one);

#endif

}  // namespace dovetail::app
