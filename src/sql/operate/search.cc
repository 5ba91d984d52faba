#include "sql/operate/search.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace dovetail {
namespace {

// Where the search begins: every event from this number on is of `until` or later.
Result<std::int64_t> begin_at(SearchedBox& box, std::int64_t before, WallTime until) {
  const auto newest = box.last_before(before, 0);
  if (!newest) return fail(newest.error());
  if (!*newest || (*newest)->created_at < until) return before;
  const auto oldest = box.first_from(std::numeric_limits<std::int64_t>::min());
  if (!oldest) return fail(oldest.error());
  if (!*oldest) return before;
  std::int64_t low = (*oldest)->seq;
  std::int64_t high = (*newest)->seq;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto found = box.first_from(middle);
    if (!found) return fail(found.error());
    if (!*found || (*found)->created_at >= until)
      high = middle;
    else
      low = (*found)->seq + 1;
  }
  return low;
}

}  // namespace

Result<FoundEvents> search_box(SearchedBox& box, const EventSearch& search) {
  std::int64_t before =
      search.before == 0 ? std::numeric_limits<std::int64_t>::max() : search.before;
  if (search.until) {
    const Result<std::int64_t> begin = begin_at(box, before, *search.until);
    if (!begin) return fail(begin.error());
    before = std::min(before, *begin);
  }
  // The last event that this call looks at; empty: it reaches the end.
  const auto last = box.last_before(before, std::max<std::size_t>(1, search.look_max) - 1);
  if (!last) return fail(last.error());
  auto rows =
      box.find(search, before, *last ? (*last)->seq : std::numeric_limits<std::int64_t>::min());
  if (!rows) return fail(rows.error());
  FoundEvents found;
  found.rows = std::move(*rows);
  if (found.rows.size() >= search.limit && search.limit > 0) {
    found.next = found.rows.back().position;
    found.looked_back_to = found.rows.back().created_at;
  } else if (*last && !(search.from && (*last)->created_at < *search.from)) {
    found.next = (*last)->seq;
    found.looked_back_to = (*last)->created_at;
  }
  return found;
}

}  // namespace dovetail
