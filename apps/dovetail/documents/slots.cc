#include "documents/slots.h"

#include <nlohmann/json.hpp>

namespace dovetail::app {

namespace {

// Several stores may be in one cluster; a slot belongs to the store of its database.
void leave_out_repeated(std::vector<ListedSlot>& all) {
  std::vector<ListedSlot> kept;
  for (const ListedSlot& one : all) {
    bool is_repeated = false;
    for (const ListedSlot& other : all) {
      if (&one == &other || one.slot.name != other.slot.name) continue;
      is_repeated = is_repeated || (other.slot.is_here && !one.slot.is_here);
      is_repeated = is_repeated || (&other < &one && !other.slot.is_here && !one.slot.is_here);
    }
    if (!is_repeated) kept.push_back(one);
  }
  all = std::move(kept);
}

}  // namespace

const char* mode_of(const assembly::WalSlot& slot) { return slot.ends_by_itself ? "auto" : "wal"; }

Expected<std::vector<ListedSlot>> list_slots(const config::Config& config,
                                             const std::string& name) {
  std::vector<ListedSlot> all;
  if (!name.empty()) {
    const auto chosen = choose_store(config, name);
    if (!chosen) return tl::unexpected(chosen.error());
    if (!assembly::database_of(**chosen)->has_slots())
      return refuse(Exit::rejected, "the store \"" + name + "\" is " +
                                        std::string(config::to_string((*chosen)->scheme)) +
                                        ", which has no slots; choose another store");
  }
  for (const config::StoreConfig& store : config.stores) {
    if (!name.empty() && store.name != name) continue;
    const auto database = assembly::database_of(store);
    if (!database->has_slots()) continue;
    if (const auto checked = check_secrets(store); !checked) return tl::unexpected(checked.error());
    auto found = database->list_slots();
    if (!found) return refuse_in(store, found.error());
    for (assembly::WalSlot& slot : *found) all.push_back({&store, std::move(slot)});
  }
  leave_out_repeated(all);
  return all;
}

Json json_of(const ListedSlot& one) {
  const assembly::WalSlot& slot = one.slot;
  return {{"name", slot.name},
          {"store", one.store->name},
          {"database", slot.database},
          {"relay", slot.relay},
          {"mode", mode_of(slot)},
          {"temporary", slot.ends_by_itself},
          {"active", slot.read_by != 0},
          {"active_pid", slot.read_by},
          {"wal_status", slot.wal_status},
          {"invalidation_reason", slot.invalidation},
          {"retained_bytes", slot.retained_bytes},
          {"safe_bytes", slot.safe_bytes}};
}

}  // namespace dovetail::app
