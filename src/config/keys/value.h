// The content of a configuration file: a tree of values, each with its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dovetail::config {

// Line 0: not from a file.
struct Place {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

struct Member;

struct Value {
  struct Other {};  // a kind of value that no key has: a date, a fraction
  using List = std::vector<Value>;
  using Table = std::vector<Member>;

  // Without "{}": clang would need Member here.
  std::variant<Other, bool, std::int64_t, std::string, List, Table> content;
  Place place{};

  template <class Kind>
  const Kind* as() const {
    return std::get_if<Kind>(&content);
  }
  // A member of this table; null if it is missing or this is not a table.
  const Member* find(std::string_view key) const;
};

struct Member {
  std::string key;
  Place place{};  // of the key
  Value value{};
};

// As TOML text. REQUIRES: neither a table nor Other.
std::string to_toml(const Value& value);

}  // namespace dovetail::config
