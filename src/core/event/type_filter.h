// Which events a handler wants, by type.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail {

// "order.placed" matches that type, "order.*" all types that begin with "order.", "*" all.
inline bool matches_type(std::string_view pattern, std::string_view type) {
  if (!pattern.ends_with('*')) return pattern == type;
  pattern.remove_suffix(1);
  return type.starts_with(pattern);
}

// Without patterns the handler wants every type.
inline bool wants_type(const std::vector<std::string>& patterns, std::string_view type) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_type(pattern, type); });
}

}  // namespace dovetail
