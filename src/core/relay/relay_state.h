// What a relay keeps in memory about its entries. Private to the relay.
#pragma once

#include "core/relay/relay.h"

namespace dovetail {

inline constexpr std::uint32_t kFailedInARow = 5;  // batches; more than a short disturbance

inline OrderKey order_key(const Event& event) {
  return {std::string(event.aggregate_type), std::string(event.aggregate_id)};
}

struct Relay::Entry {
  Event* event = nullptr;
  Flight* flight = nullptr;
  Entry* next = nullptr;       // the next of its line
  std::uint64_t order = 0;     // grows in read order
  std::uint32_t attempts = 0;  // counted failures
  bool finished = false;
  bool has_come_back = false;       // the sink returned it without confirmation
  TimePoint came_back_at{};         // the first time
  std::uint64_t confirmations = 0;  // of other keys, at that time
  std::string reason{};             // of the last failure
  Settled fate = Settled::delivered;
  BrokerPlace place{};  // if delivered

  // A line is found by the hash of its key; an event without a key has its own line.
  std::uint64_t line_key() const { return event->has_key() ? event->key_hash : ~order; }
  // Tells keys apart; an event without a key has its own value, the same at each return.
  std::uint64_t sick_key() const {
    if (event->has_key()) return event->key_hash;
    std::uint64_t key = 14695981039346656037U;
    for (const std::uint8_t byte : event->id.bytes) key = (key ^ byte) * 1099511628211U;
    return key;
  }
  bool same_key(const Entry& other) const {
    return event->has_key() && event->key_hash == other.event->key_hash &&
           event->aggregate_id == other.event->aggregate_id &&
           event->aggregate_type == other.event->aggregate_type;
  }
};

struct Relay::Flight {
  Batch batch;
  std::vector<Entry> entries;
  std::vector<std::uint32_t> attempts;  // of replayed events
  std::vector<EventId> delivered;       // of replayed events
  std::size_t unresolved = 0;
  bool replay = false;  // taken from parking, not read from the source
  TimePoint received_at{};
};

struct Relay::Line {
  Entry* head = nullptr;  // waiting, in read order
  Entry* tail = nullptr;
  bool in_flight = false;  // on a sink that takes one event of a key at a time
  bool held = false;       // waits until `due` and until `after_submission` is collected
  bool counts = false;     // the failure that it waits for counts
  TimePoint due{};
  std::uint64_t after_submission = 0;
};

struct Relay::Submission {
  std::uint64_t number = 0;
  TimePoint submitted_at{};
  std::vector<Entry*> entries;
  std::vector<const Event*> events;
};

}  // namespace dovetail
