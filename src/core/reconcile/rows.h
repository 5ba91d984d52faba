// What a comparison reads of both sides, in the order of event ids.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail::reconcile {

// One row after the other, in the order of event ids. Holds a bounded page of them.
template <class Row>
class Stream {
 public:
  virtual ~Stream() = default;
  // Null: there are no more. The row is valid until the next call.
  virtual Result<const Row*> next() = 0;
};

enum class Progress : std::uint8_t {
  delivered,  // the relay says that the receiver has confirmed it, or that it is parked
  pending,    // the relay has not passed it
  delayed,    // it waits for its time, in front of the outbox
};

// An event as its outbox has it. Its payload is left out; created_at is when it was written.
struct Published {
  Event event{};
  std::int64_t digest = 0;  // payload_digest()
  Progress progress = Progress::delivered;
};

// An event as a receiver has it: a row of an inbox, or a message of a topic.
struct Received {
  EventId id{};
  std::uint32_t receiver = 0;              // which one, by its place in Rules::receivers
  WallTime at{};                           // when it was applied, or sent to the topic
  std::optional<std::int64_t> digest{};    // none: it is not known
  std::optional<WallTime> available_at{};  // when it was written, where its id does not say so
  std::int32_t partition = -1;             // of a topic
  std::int64_t offset = -1;
};

enum class Hold : std::uint8_t {
  parked,
  waiting,
  discarded,  // by an operator
};

// An event that a relay or a consumer keeps back.
struct Held {
  EventId id{};
  Hold hold = Hold::parked;
};

// Where a side was read: for people.
struct Place {
  std::string login{};  // who read it
  WallTime at{};        // when its snapshot was taken, by its clock
};

// One snapshot of an outbox, as one of its relays sees it. One thread.
class OutboxScan {
 public:
  virtual ~OutboxScan() = default;
  virtual Stream<Published>& events() = 0;
  // Parked by the relay. Read it along with events().
  virtual Stream<Held>& held() = 0;
  virtual const Place& place() const = 0;
  // Everything that was written at this time or later is still there.
  virtual WallTime retained_since() const = 0;
  virtual std::uint64_t events_estimate() const = 0;  // for progress only
  // Which of these the outbox has now, after the snapshot.
  virtual Result<std::vector<EventId>> find_now(std::span<const EventId> ids) = 0;
};

// One snapshot of a consumer's inbox. One thread.
class InboxScan {
 public:
  virtual ~InboxScan() = default;
  struct Handler {
    std::string name;            // "stock", or "stock.ledger"
    WallTime forgotten_until{};  // see is_forgotten()
  };
  // In the order of Received::receiver.
  virtual const std::vector<Handler>& handlers() const = 0;
  virtual Stream<Received>& rows() = 0;
  // What this database keeps back for the consumer: parked, or in a mailbox and not passed yet.
  virtual Stream<Held>& held() = 0;
  virtual const Place& place() const = 0;
};

}  // namespace dovetail::reconcile
