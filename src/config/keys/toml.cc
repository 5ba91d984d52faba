#include "config/keys/toml.h"

#include <toml++/toml.h>

namespace dovetail::config {
namespace {

Place place_in(const toml::source_region& where) { return {where.begin.line, where.begin.column}; }

// The library limits how deep a file may nest.
Value value_of(const toml::node& node) {
  Value value;
  value.place = place_in(node.source());
  if (const toml::table* table = node.as_table()) {
    Value::Table members;
    for (const auto& [key, member] : *table)
      members.push_back({std::string(key.str()), place_in(key.source()), value_of(member)});
    value.content = std::move(members);
  } else if (const toml::array* array = node.as_array()) {
    Value::List items;
    for (const toml::node& item : *array) items.push_back(value_of(item));
    value.content = std::move(items);
  } else if (const auto text = node.value_exact<std::string>()) {
    value.content = *text;
  } else if (const auto number = node.value_exact<std::int64_t>()) {
    value.content = *number;
  } else if (const auto flag = node.value_exact<bool>()) {
    value.content = *flag;
  }
  return value;
}

}  // namespace

std::optional<Value> read_toml(std::string_view text, const std::string& file, TomlError& error) {
  try {
    return value_of(toml::parse(text, file));
  } catch (const toml::parse_error& thrown) {
    error = {place_in(thrown.source()), std::string(thrown.description())};
    return std::nullopt;
  }
}

}  // namespace dovetail::config
