// Keeps the order of each key in a sink that has many events of a key in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/failure/failed_keys.h"
#include "core/relay/sink.h"

namespace dovetail {

// A broker keeps the order within a channel: a partition, a stream, a subject. So events of one key
// may be in flight together only in one channel; one for another channel waits here until all
// before it are confirmed. Behind an event that failed, those of its key that were submitted before
// the failure was collected come back untried. Events without a key pass.
//
// A broker may keep the order in a channel only once it knows the sender there. Then the first
// event of a key in a channel goes alone, and many follow when it is confirmed.
//
// Tags are those of the sink's ConfirmTracker. For one thread.
class KeyOrder {
 public:
  enum class First : std::uint8_t { together, alone };
  explicit KeyOrder(First first = First::together) : first_(first) {}

  enum class Turn : std::uint8_t {
    now,    // send it
    later,  // it waits here until take_due() returns it
    never,  // behind a failure: it comes back as `again`
  };
  // A channel of its own: one unconfirmed event of a key at a time. For a broker that goes on
  // behind a message that it refuses.
  static std::uint64_t own_channel(std::uint64_t tag) { return tag; }

  // The events stay valid until their batch is collected.
  void add_batch(std::uint64_t first_tag, Events events);
  const Event& event_of(std::uint64_t tag) const { return *entry(tag).event; }

  std::uint64_t first_tag() const { return first_tag_; }  // that is not collected

  // Whether this event may go into `channel`. Asked once for each event in the order of submission,
  // and again after take_due() returned it.
  // `never` counts as its failure.
  Turn place(std::uint64_t tag, std::uint64_t channel);
  // Unknown tags, and a second answer about an event, change nothing.
  void confirmed(std::uint64_t tag);
  // Also for an event that was refused before it was sent.
  void failed(std::uint64_t tag);
  // Whether this event, which was sent in vain, is behind a failure now.
  bool is_blocked(std::uint64_t tag) const;
  // An event whose turn may have come. Empty: none for now.
  std::optional<std::uint64_t> take_due();

  void collected();  // the oldest batch
  // The first event of each key that has nothing in flight goes alone again. Called now and then,
  // because a broker forgets idle senders.
  void forget_idle_keys();
  void clear();  // forgets all events

 private:
  enum class State : std::uint8_t { submitted, waiting, in_flight, done };
  struct Entry {
    const Event* event = nullptr;
    std::uint64_t batch = 0;
    State state = State::submitted;
  };
  struct Key {
    std::uint64_t channel = 0;            // of those in flight
    std::size_t in_flight = 0;            // not confirmed
    bool is_known = false;                // one was confirmed in the channel
    std::deque<std::uint64_t> waiting{};  // tags, in order
  };
  const Entry& entry(std::uint64_t tag) const;
  Entry* find(std::uint64_t tag);
  void leave(std::uint64_t tag, Entry& entry, bool has_failed);

  const First first_;
  std::deque<Entry> entries_;      // of all batches that are not collected
  std::uint64_t first_tag_ = 1;    // of entries_.front()
  std::deque<std::size_t> sizes_;  // of the batches
  std::uint64_t oldest_batch_ = 0;
  std::unordered_map<std::uint64_t, Key> keys_;  // with events in flight or waiting, or known
  std::deque<std::uint64_t> due_;                // keys whose first waiting event may go
  FailedKeys failed_;
};

}  // namespace dovetail
