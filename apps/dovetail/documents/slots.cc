#include "documents/slots.h"

#include <nlohmann/json.hpp>

namespace dovetail::app {

#ifdef DOVETAIL_HAS_POSTGRES

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

const char* mode_of(const postgres::WalSlot& slot) { return slot.temporary ? "auto" : "wal"; }

Expected<std::vector<ListedSlot>> list_slots(const config::Config& config,
                                             const std::string& name) {
  std::vector<ListedSlot> all;
  if (!name.empty()) {
    const auto chosen = choose_store(config, name);
    if (!chosen) return tl::unexpected(chosen.error());
    if ((*chosen)->scheme != config::StoreScheme::postgres)
      return refuse(Exit::rejected, "the store \"" + name + "\" is " +
                                        std::string(config::to_string((*chosen)->scheme)) +
                                        ", which has no slots; choose a PostgreSQL store");
  }
  for (const config::StoreConfig& store : config.stores) {
    if (store.scheme != config::StoreScheme::postgres) continue;
    if (!name.empty() && store.name != name) continue;
    if (const auto checked = check_secrets(store); !checked) return tl::unexpected(checked.error());
    auto found = postgres::list_wal_slots(store.conninfo);
    if (!found) return refuse_in(store, found.error());
    for (postgres::WalSlot& slot : *found) all.push_back({&store, std::move(slot)});
  }
  leave_out_repeated(all);
  return all;
}

Json json_of(const ListedSlot& one) {
  const postgres::WalSlot& slot = one.slot;
  return {{"name", slot.name},
          {"store", one.store->name},
          {"database", slot.database},
          {"relay", slot.relay},
          {"mode", mode_of(slot)},
          {"temporary", slot.temporary},
          {"active", slot.active},
          {"active_pid", slot.active_pid},
          {"wal_status", slot.wal_status},
          {"invalidation_reason", slot.invalidation},
          {"retained_bytes", slot.retained_bytes},
          {"safe_bytes", slot.safe_bytes}};
}

#endif

}  // namespace dovetail::app
