// The durable store of events that failed and of those that wait behind them.
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
  parked,   // waits for an operator: replay or discard
  waiting,  // goes out after its delay, once no earlier event of its key is left
};

// The reason of an event that was parked only because an earlier one of its key is.
inline constexpr std::string_view kWaitsBehind = "waits behind an earlier event of its key";

struct ParkRequest {
  const Event* event = nullptr;
  ParkState state = ParkState::parked;
  std::uint32_t attempts = 0;
  Duration delay{};  // counted from the write by the store's clock
  std::string reason{};
};

// Whether two events with one id are the same. Other publishers may use an id twice; then both
// events are kept.
bool is_same_event(const Event& one, const Event& other);

// A second event with an id that the store has already. It gets its own id, always the same, and
// waits for an operator: its publisher used an id twice.
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

// One thread at a time. A key is blocked while the store has an unfinished event of it. The events
// of a key are ordered by position. An event without aggregate_id has no key: it blocks nothing and
// waits for nothing. If the lane has another owner, every write returns Errc::stopped.
class Parking {
 public:
  virtual ~Parking() = default;

  // Connects or reconnects.
  virtual Status open() = 0;

  // At most `keys_max` of the blocked keys, in no order.
  virtual Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) = 0;

  // Those of `keys` that are blocked.
  virtual Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) = 0;

  // Adds events, or updates those that exist (by event id). Durable when it returns. An event can
  // come again after a crash: if an operator discarded it, it stays discarded; if it waits for an
  // operator, it still does, even if the request would let it retry. If an event comes several
  // times, its earliest position counts. A different event with an id that is here and not
  // delivered is kept as a SecondEvent.
  virtual Status park(std::span<const ParkRequest> requests) = 0;

  // Adds to `out` the events that are due by the store's clock (see is_due()) and have no
  // unfinished earlier event of their key outside `out`. They are ordered by position along each
  // key. Adds their attempts so far to `attempts`. Event::replays says how often an operator
  // replayed each.
  virtual Status take_due(Batch& out, std::vector<std::uint32_t>& attempts,
                          const Limits& limits) = 0;

  // These events were delivered and are finished.
  virtual Status delivered(std::span<const EventId> ids) = 0;
};

}  // namespace dovetail
