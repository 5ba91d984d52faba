// Parked events of one store, one relay and one reason, whatever numbers and ids the reason names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "console/api/call.h"
#include "console/api/desk.h"

namespace dovetail::console {

// The same for reasons that differ in numbers, ids and quoted values only.
std::string shape_of(std::string_view reason);
// Stable, for links and for actions.
std::string group_id(const std::string& store, const ParkedRow& row);

// A parked event that needs a decision, and how many of its key wait behind it.
struct Head {
  app::ParkedPlace place;
  std::string group;
  std::size_t behind = 0;
};

struct Heads {
  std::vector<Head> all{};  // in the order of their numbers, store by store
  bool is_complete = true;  // false: there are more than kReadMax unfinished rows
  std::vector<Silent> silent{};
};

inline constexpr std::size_t kReadMax = 20'000;  // unfinished rows of a store

// `store` and `relay`: empty for all.
Expected<Heads> read_heads(const Desk& desk, std::string_view store, const std::string& relay);

}  // namespace dovetail::console
