// The inbox rows of a batch of events, and what the database says about them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/inbox/inbox.h"

namespace dovetail {

// One row to insert: an event and one of its handlers.
struct HandlerRow {
  EventId id{};
  std::int32_t handler_id = 0;
  std::uint32_t event = 0;  // index in the batch
  std::uint32_t handler = 0;
  std::int64_t digest = 0;
  bool is_forgotten = false;             // inserted only if it is known as not applied
  Arrival arrival = Arrival::duplicate;  // or forgotten, until inserted
};

// (event id, handler): the key of a row.
using InboxKey = std::pair<EventId, std::int32_t>;

// A row that existed before.
struct KnownRow {
  InboxKey key{};
  std::optional<std::int64_t> digest{};  // empty: any payload matches
};

// Sorts by the order of insertion, so that two consumers cannot wait for each other in a
// circle.
void sort_rows(std::span<HandlerRow> rows);

// After an insert: rows in `inserted` are first, in any order that the server likes. If an event is
// in the batch twice, only one of them is there.
void mark_inserted(std::span<HandlerRow> rows, std::vector<InboxKey> inserted);

// Whether rows were not inserted whose payload must be compared with the existing row.
bool needs_comparing(std::span<const HandlerRow> rows);
void compare_known(std::span<HandlerRow> rows, std::vector<KnownRow> known);

// An event is a conflict if it is one for any handler, forgotten if it is so for any, and so on. An
// event that no handler wants is first.
void tell_arrivals(std::span<const HandlerRow> rows, std::span<Arrival> arrivals);

}  // namespace dovetail
