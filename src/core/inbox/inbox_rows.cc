#include "core/inbox/inbox_rows.h"

#include <algorithm>
#include <tuple>

#include "core/check.h"

namespace dovetail {

namespace {

InboxKey key_of(const HandlerRow& row) { return {row.id, row.handler_id}; }

int rank_of(Arrival arrival) {
  switch (arrival) {
    case Arrival::conflict:
      return 4;
    case Arrival::forgotten:
      return 3;
    case Arrival::first:
      return 2;
    case Arrival::superseded:
      return 1;
    case Arrival::duplicate:
      break;
  }
  return 0;
}

}  // namespace

void sort_rows(std::span<HandlerRow> rows) {
  std::sort(rows.begin(), rows.end(), [](const HandlerRow& a, const HandlerRow& b) {
    return std::tie(a.id, a.handler_id, a.event) < std::tie(b.id, b.handler_id, b.event);
  });
}

void mark_inserted(std::span<HandlerRow> rows, std::vector<InboxKey> inserted) {
  std::sort(inserted.begin(), inserted.end());
  auto next = inserted.begin();
  for (HandlerRow& row : rows) {
    if (row.arrival == Arrival::first) continue;
    while (next != inserted.end() && *next < key_of(row)) ++next;
    if (next == inserted.end() || *next != key_of(row)) continue;
    row.arrival = Arrival::first;
    ++next;
  }
}

bool needs_comparing(std::span<const HandlerRow> rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const HandlerRow& row) { return row.arrival != Arrival::first; });
}

void compare_known(std::span<HandlerRow> rows, std::vector<KnownRow> known) {
  const auto before = [](const KnownRow& row, const InboxKey& key) { return row.key < key; };
  std::sort(known.begin(), known.end(),
            [](const KnownRow& a, const KnownRow& b) { return a.key < b.key; });
  for (HandlerRow& row : rows) {
    if (row.arrival == Arrival::first) continue;
    const auto found = std::lower_bound(known.begin(), known.end(), key_of(row), before);
    if (found == known.end() || found->key != key_of(row)) continue;
    row.arrival =
        found->digest.value_or(row.digest) == row.digest ? Arrival::duplicate : Arrival::conflict;
  }
}

void tell_arrivals(std::span<const HandlerRow> rows, std::span<Arrival> arrivals) {
  std::vector<bool> is_wanted(arrivals.size(), false);
  std::fill(arrivals.begin(), arrivals.end(), Arrival::duplicate);
  for (const HandlerRow& row : rows) {
    is_wanted[row.event] = true;
    Arrival& known = arrivals[row.event];
    if (rank_of(row.arrival) > rank_of(known)) known = row.arrival;
  }
  for (std::size_t i = 0; i < arrivals.size(); ++i)
    if (!is_wanted[i]) arrivals[i] = Arrival::first;
}

}  // namespace dovetail
