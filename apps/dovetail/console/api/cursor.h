// Where the next page begins in each store: "orders:17,shop:4711". Stores that are not in it are at
// their end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "commands/command.h"

namespace dovetail::console {

class Cursor {
 public:
  // Of `after`; empty: the first page. usage: it is not one of ours.
  static app::Expected<Cursor> parse(std::string_view text);

  // None: this store has been read to its end. 0: from its beginning.
  std::optional<std::int64_t> of(const std::string& store) const;
  void set(const std::string& store, std::int64_t place) { places_[store] = place; }
  bool is_end() const { return places_.empty(); }
  std::string text() const;

 private:
  bool is_first_ = false;
  std::map<std::string, std::int64_t> places_;
};

}  // namespace dovetail::console
