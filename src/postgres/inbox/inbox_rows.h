// The rows that a batch of events puts into the inbox, and what the database says about them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/inbox/inbox.h"

namespace dovetail::postgres {

// One row that is to be: of an event for one of its handlers.
struct InboxRow {
  EventId id{};
  std::int32_t handler_id = 0;
  std::uint32_t event = 0;  // which of the batch
  std::uint32_t handler = 0;
  std::int64_t digest = 0;
  bool is_forgotten = false;  // it is not inserted unless it is known not to have been applied
  Arrival arrival = Arrival::duplicate;  // or forgotten, until it is inserted
};

// (event id, handler): what a row is known by.
using InboxKey = std::pair<EventId, std::int32_t>;

// A row that was there.
struct KnownRow {
  InboxKey key{};
  std::optional<std::int64_t> digest{};  // none: any payload fits
};

// In the order in which rows are inserted, so that two consumers never wait for each other in a
// circle.
void sort_rows(std::span<InboxRow> rows);

// After an insert of some of them: those in `inserted`, which comes in whatever order the server
// likes, are first. Of an event that is in the batch twice, one is there.
void mark_inserted(std::span<InboxRow> rows, std::vector<InboxKey> inserted);

// Of rows that were not inserted: whether they were there with the same payload.
bool needs_comparing(std::span<const InboxRow> rows);
void compare_known(std::span<InboxRow> rows, std::vector<KnownRow> known);

// An event is a conflict when it is for one handler, forgotten when it is for one, and so on. One
// that no handler wants is first.
void tell_arrivals(std::span<const InboxRow> rows, std::span<Arrival> arrivals);

}  // namespace dovetail::postgres
