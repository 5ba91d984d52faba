#include "core/message/relay_filter.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "core/event/headers.h"
#include "core/event/type_filter.h"

namespace dovetail {

namespace {

std::string plain(std::string_view quoted) {
  std::string text(quoted.size(), '\0');
  return std::string(unescaped(quoted, text.data()));
}

// Malformed headers have no values; such an event is parked elsewhere, so it passes.
bool accepts_headers(const std::vector<std::pair<std::string, std::string>>& wanted,
                     std::string_view encoded) {
  std::vector<std::string_view> open;
  for (const auto& [name, pattern] : wanted)
    if (std::find(open.begin(), open.end(), name) == open.end()) open.push_back(name);
  HeaderScanner headers(encoded);
  while (!open.empty()) {
    const Result<bool> found = headers.next();
    if (!found) return true;
    if (!*found) return false;
    const std::string name = plain(headers.name());
    const std::string value = plain(headers.value());
    const bool matches = std::any_of(wanted.begin(), wanted.end(), [&](const auto& one) {
      return one.first == name && matches_type(one.second, value);
    });
    if (matches) std::erase(open, name);
  }
  return true;
}

void add_quoted(std::string& json, std::string_view text) {
  const std::size_t end = json.size();
  json.resize(end + quoted_bytes(text));
  write_quoted(text, json.data() + end);
}

void add_list(std::string& json, std::string_view name, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  if (json.size() > 1) json += ',';
  add_quoted(json, name);
  json += ":[";
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (i > 0) json += ',';
    add_quoted(json, patterns[i]);
  }
  json += ']';
}

}  // namespace

std::string RelayFilter::json() const {
  if (is_empty()) return {};
  std::string json = "{";
  add_list(json, "topics", topics);
  add_list(json, "types", types);
  add_list(json, "aggregate_types", aggregate_types);
  if (!headers.empty()) {
    std::map<std::string, std::vector<std::string>> by_name;
    for (const auto& [name, pattern] : headers) by_name[name].push_back(pattern);
    std::string lists = "{";
    for (const auto& [name, patterns] : by_name) add_list(lists, name, patterns);
    if (json.size() > 1) json += ',';
    json += "\"headers\":" + lists + "}";
  }
  return json + "}";
}

bool RelayFilter::accepts(const Event& event) const {
  return wants_type(topics, event.topic) && wants_type(types, event.type) &&
         wants_type(aggregate_types, event.aggregate_type) &&
         (headers.empty() || accepts_headers(headers, event.headers));
}

}  // namespace dovetail
