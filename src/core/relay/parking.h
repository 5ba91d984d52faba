// The durable store of events that could not be delivered, and of what waits behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/event/batch.h"
#include "core/relay/source.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail {

// (aggregate_type, aggregate_id)
using OrderKey = std::pair<std::string, std::string>;

enum class ParkState : std::uint8_t {
  parked,   // needs an operator: replay or discard
  waiting,  // goes out by itself after its delay, once nothing of its key stands before it
};

struct ParkRequest {
  const Event* event = nullptr;
  ParkState state = ParkState::parked;
  std::uint32_t attempts = 0;
  Duration delay{};  // from the moment of the write, by the store's clock
  std::string reason{};
};

// Whether two events under one id are the same. Ids of foreign tables and messages may be used
// twice: then both events are kept.
bool is_same_event(const Event& one, const Event& other);

// A second event under an id that the store knows already. It is kept under an id of its own, the
// same each time. It needs an operator: its publisher used an id twice.
class SecondEvent {
 public:
  explicit SecondEvent(const ParkRequest& first);
  SecondEvent(const SecondEvent&) = delete;
  SecondEvent& operator=(const SecondEvent&) = delete;

  const ParkRequest& request() const { return request_; }

 private:
  Event event_;
  ParkRequest request_;
};

// One thread at a time. A key is blocked while the store holds an unfinished event of it; along a
// key, events are ordered by position. An event without aggregate_id has no key: it blocks nothing
// and waits for nothing. Every write is refused with Errc::stopped when the lane has another owner.
class Parking {
 public:
  virtual ~Parking() = default;

  // Connects; also reconnects.
  virtual Status open() = 0;

  // Keys that are blocked now, in no order, at most `keys_max`.
  virtual Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) = 0;

  // Of these keys, those that are blocked now.
  virtual Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) = 0;

  // Adds events, or updates those that are there (by event id). Durable when it returns. An event
  // that an operator has already discarded stays discarded, and one that needs an operator does so
  // still when a request would let it wait: it was read again after a crash. Of several copies of
  // one event, the earliest gives it its place. Another event under an id that is here, and was not
  // delivered, is kept as a SecondEvent.
  virtual Status park(std::span<const ParkRequest> requests) = 0;

  // Adds to `out` the events that are due by the store's clock (see is_due()) with nothing
  // unfinished before them on their key that is not in `out` too, ordered by position along each
  // key, and their attempts so far to `attempts`. Event::replays says how often an operator had
  // each replayed.
  virtual Status take_due(Batch& out, std::vector<std::uint32_t>& attempts,
                          const Limits& limits) = 0;

  // These were delivered: they are finished.
  virtual Status delivered(std::span<const EventId> ids) = 0;
};

}  // namespace dovetail
