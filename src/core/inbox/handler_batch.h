// The events of an inbox transaction, their rows, and which handler gets which of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/event/type_filter.h"
#include "core/inbox/inbox_rows.h"

namespace dovetail {

// Whether one of the handlers, which have `types`, wants events of this type.
template <class Handlers>
bool any_wants(const Handlers& handlers, std::string_view type) {
  for (const auto& handler : handlers)
    if (wants_type(handler.types, type)) return true;
  return false;
}

// For one transaction at a time; the events live as long as it.
class HandlerBatch {
 public:
  // Forgets the transaction before. The store then fills `rows`, in any order, and says of each
  // what the database says.
  void begin(Events events);
  // The same without events. Which handlers had not applied the last event is still known.
  void clear() { begin({}); }
  std::span<const Event* const> events() const { return events_; }
  const Event& event_of(const HandlerRow& row) const { return *events_[row.event]; }
  std::vector<HandlerRow> rows{};

  // Says of each event how it arrived, and counts.
  void tell(std::span<Arrival> arrivals);
  std::uint64_t unwanted() const { return unwanted_; }  // by all handlers: seen, but not applied
  std::uint64_t superseded() const { return superseded_; }

  // `to_apply` is a part of the events, in their order.
  void choose(Events to_apply);
  // Of those, what the handler has not applied, in order. Valid until the next call.
  Events events_for(std::uint32_t handler);

  // The handlers that had not applied the event when it was last inserted alone.
  std::span<const std::uint32_t> not_applied_by(const EventId& id) const;

 private:
  std::vector<const Event*> events_{};
  std::uint64_t unwanted_ = 0;
  std::uint64_t superseded_ = 0;
  std::vector<bool> is_chosen_{};
  std::vector<std::uint32_t> places_{};
  std::vector<const Event*> chosen_{};
  EventId alone_{};
  std::vector<std::uint32_t> not_applied_by_{};
};

}  // namespace dovetail
