// What a relay keeps in memory about the events on their way. Private to the relay.
#pragma once

#include "core/relay.h"

namespace dovetail {

struct Relay::Slot {
  Event* event = nullptr;
  Flight* flight = nullptr;
  Slot* next = nullptr;        // the next of its line
  std::uint64_t order = 0;     // grows in read order
  std::uint32_t attempts = 0;  // that failed
  std::uint32_t repeats = 0;   // times it had to be sent again, for the length of the next pause
  bool finished = false;
  Settled fate = Settled::delivered;

  // Lines are found by the hash of the key; an event without a key gets a line of its own.
  std::uint64_t line_key() const { return event->has_key() ? event->key_hash : ~order; }
  bool same_key(const Slot& other) const {
    return event->has_key() && event->key_hash == other.event->key_hash &&
           event->aggregate_id == other.event->aggregate_id &&
           event->aggregate_type == other.event->aggregate_type;
  }
};

struct Relay::Flight {
  Batch batch;
  std::vector<Slot> slots;
  std::vector<std::uint32_t> attempts;  // of replayed events
  std::vector<EventId> delivered;       // of replayed events
  std::size_t unresolved = 0;
  bool replay = false;  // taken from parking, not read from the source
};

struct Relay::Line {
  Slot* head = nullptr;  // waiting, in read order
  Slot* tail = nullptr;
  bool in_flight = false;  // on a sink that takes one of a key at a time
  bool held = false;       // waits until `due` and until `after_submission` is collected
  TimePoint due{};
  std::uint64_t after_submission = 0;
};

struct Relay::Submission {
  std::uint64_t number = 0;
  TimePoint submitted_at{};
  std::vector<Slot*> slots;
  std::vector<const Event*> events;
};

}  // namespace dovetail
