#include "config/keys/variables.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace dovetail::config {

namespace {

// A shorter value hides nothing, and would change unrelated words.
constexpr std::size_t kHiddenMin = 3;

bool is_variable_name(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// Returns what is wrong, or nothing.
std::string replace_in(std::string& text, Variables& used) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = text.find("${", at);
    out.append(text, at, begin - at);
    if (begin == std::string::npos) break;
    if (begin > at && text[begin - 1] == '$') {
      out += "{";
      at = begin + 2;
      continue;
    }
    const std::size_t end = text.find('}', begin);
    const std::string name =
        end == std::string::npos ? "" : text.substr(begin + 2, end - begin - 2);
    if (!is_variable_name(name))
      return "has \"${\" without a variable's name and \"}\"; write ${NAME}, or $${ for the text "
             "\"${\" itself";
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr)
      return "the environment variable " + name + " is not set; set it, or write $${" + name +
             "} for the text itself";
    used.emplace_back(name, value);
    out += value;
    at = end + 1;
  }
  text = std::move(out);
  return {};
}

}  // namespace

void replace_variables(Value& value, const std::string& key, Variables& used, Problems& problems) {
  if (auto* const text = std::get_if<std::string>(&value.content)) {
    if (const std::string wrong = replace_in(*text, used); !wrong.empty())
      problems.add(value.place, key, wrong);
  } else if (auto* const list = std::get_if<Value::List>(&value.content)) {
    for (Value& item : *list) replace_variables(item, key, used, problems);
  } else if (auto* const table = std::get_if<Value::Table>(&value.content)) {
    for (Member& member : *table)
      replace_variables(member.value, (key.empty() ? "" : key + ".") + member.key, used, problems);
  }
}

std::string without_values(std::string text, const Variables& used) {
  for (const auto& [name, value] : used) {
    if (value.size() < kHiddenMin) continue;
    const std::string shown = "${" + name + "}";
    for (std::size_t at = text.find(value); at != std::string::npos;
         at = text.find(value, at + shown.size()))
      text.replace(at, value.size(), shown);
  }
  return text;
}

}  // namespace dovetail::config
