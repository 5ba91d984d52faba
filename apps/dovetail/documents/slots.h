// The slots of dovetail in the stores that have them.
#pragma once

#include <string>
#include <vector>

#include "assembly/database.h"
#include "commands/command.h"
#include "commands/output.h"

namespace dovetail::app {

struct ListedSlot {
  const config::StoreConfig* store;
  assembly::WalSlot slot;
};

const char* mode_of(const assembly::WalSlot& slot);
// Of one store, or of all. A slot of a cluster that several stores share is there once.
Expected<std::vector<ListedSlot>> list_slots(const config::Config& config, const std::string& name);
Json json_of(const ListedSlot& one);

}  // namespace dovetail::app
