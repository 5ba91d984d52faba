// Which events a handler wants, by their type.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail {

// "order.placed" is that type only, "order.*" all that begin with "order.", "*" every one.
inline bool matches_type(std::string_view pattern, std::string_view type) {
  if (!pattern.ends_with('*')) return pattern == type;
  pattern.remove_suffix(1);
  return type.starts_with(pattern);
}

// Without patterns everything is wanted.
inline bool wants_type(const std::vector<std::string>& patterns, std::string_view type) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_type(pattern, type); });
}

}  // namespace dovetail
