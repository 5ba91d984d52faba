// The reference of the configuration file, from the declarations of its keys.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/keys/setting.h"

namespace dovetail::config {

struct TableReference {
  std::string name;   // "relay", as in `dovetail config relay`
  std::string title;  // "[[relay]]"
  std::string about;
  std::vector<KeyReference> keys;
};

// All tables in the order of docs/CONFIG.md, without the settings of brokers.
std::vector<TableReference> table_references();

// docs/CONFIG.md
std::string to_markdown(const std::vector<TableReference>& tables);
// One table for the terminal, with lines of at most `width` characters.
std::string to_text(const TableReference& table, std::size_t width);

}  // namespace dovetail::config
