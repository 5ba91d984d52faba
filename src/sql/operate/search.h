// Finds events of one outbox or mailbox without reading the whole table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/operations.h"

namespace dovetail {

// What a search asks of the table, by the numbers of its events.
class SearchedBox {
 public:
  struct Place {
    std::int64_t seq = 0;
    WallTime created_at{};
  };

  SearchedBox() = default;
  SearchedBox(const SearchedBox&) = delete;
  SearchedBox& operator=(const SearchedBox&) = delete;
  virtual ~SearchedBox() = default;

  // The first event with this number or a later one.
  virtual Result<std::optional<Place>> first_from(std::int64_t seq) = 0;
  // Of the events before this number, newest first: the one behind `skipped` others.
  virtual Result<std::optional<Place>> last_before(std::int64_t seq, std::size_t skipped) = 0;
  // Those that `search` describes with `last` <= number < `before`, newest first: at most its
  // limit, and then all relays of the last one.
  virtual Result<std::vector<EventRow>> find(const EventSearch& search, std::int64_t before,
                                             std::int64_t last) = 0;
};

// The times of a search are found by bisection, because events carry their times in about the order
// of their numbers; after a step of the clock it may begin too late.
Result<FoundEvents> search_box(SearchedBox& box, const EventSearch& search);

}  // namespace dovetail
