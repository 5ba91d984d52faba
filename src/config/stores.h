// The store part of the configuration file.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "config/keys/section.h"

namespace dovetail::config {

bool is_plain_name(std::string_view name);
inline constexpr std::string_view kNameForm = "a name is made of letters, digits, '-', '_' and '.'";

// Reads every [store.NAME].
void read_stores(Section& root, Config& config);

// Error if no store has that name.
void check_store_name(Section& section, std::string_view key, const std::string& name,
                      const Config& config);
// Why a store cannot do it: "the store "a" is SQLite". Empty: it can, or the store is missing.
std::string why_lacks(const StoreConfig* store, bool StoreType::* ability);
// A key for stores with this ability only. `store` finds the store that the table names; null:
// unknown.
using FindStore = std::function<const StoreConfig*()>;
void only_for_stores(Setting& setting, bool StoreType::* ability, FindStore store);
// Error if a password has two sources.
void check_password(Section& section);
// Error if a certificate has no key, or a key no certificate.
void check_pair(Section& section, std::string_view cert, std::string_view key);

}  // namespace dovetail::config
