#include "config/keys/value.h"

#include <algorithm>

#include "core/check.h"

namespace dovetail::config {

const Member* Value::find(std::string_view key) const {
  const Table* const table = as<Table>();
  if (table == nullptr) return nullptr;
  const auto found = std::find_if(table->begin(), table->end(),
                                  [key](const Member& one) { return one.key == key; });
  return found == table->end() ? nullptr : &*found;
}

std::string to_toml(const Value& value) {
  if (const auto* flag = value.as<bool>()) return *flag ? "true" : "false";
  if (const auto* number = value.as<std::int64_t>()) return std::to_string(*number);
  if (const auto* text = value.as<std::string>()) return "\"" + *text + "\"";
  const auto* list = value.as<Value::List>();
  DOVETAIL_CHECK(list != nullptr);
  std::string items;
  for (const Value& item : *list) items += (items.empty() ? "" : ", ") + to_toml(item);
  return "[" + items + "]";
}

}  // namespace dovetail::config
