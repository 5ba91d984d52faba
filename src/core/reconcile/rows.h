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

// Rows of a page.
inline constexpr std::int64_t kPageRows = 2000;

// A stream over pages that are read one after the other.
template <class Row>
class Pages : public Stream<Row> {
 public:
  Result<const Row*> next() final {
    if (taken_ == page_.size()) {
      if (is_over_) return nullptr;
      page_.clear();
      taken_ = 0;
      DOVETAIL_TRY(read_page(page_));
      is_over_ = page_.empty();
      if (is_over_) return nullptr;
    }
    return &page_[taken_++];
  }

 protected:
  // Adds the rows that follow. None: there are no more.
  virtual Status read_page(std::vector<Row>& page) = 0;

 private:
  std::vector<Row> page_{};
  std::size_t taken_ = 0;
  bool is_over_ = false;
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
  std::string store{};  // its place, without secrets
  std::string login{};  // who read it
  WallTime at{};        // when the scan was opened, by the clock of that place
};

// What of its time a side still has.
struct Retained {
  WallTime since{};  // everything of this time or later
  // The same for events whose ids have no time.
  WallTime untimed_since = WallTime::min();
};

// An outbox, as one of its relays sees it. How far that relay is was read when the scan was opened.
// Rows are read later, page by page, each by a statement of its own, so that no snapshot is held.
// Open it before the scan of the receiver: what the relay had passed by then, the receiver has by
// then. One thread.
class OutboxScan {
 public:
  virtual ~OutboxScan() = default;
  virtual Stream<Published>& events() = 0;
  // Parked by the relay. Read it along with events().
  virtual Stream<Held>& held() = 0;
  virtual const Place& place() const = 0;
  // Asks now.
  virtual Result<Retained> retained() = 0;
  virtual std::uint64_t events_estimate() const = 0;  // for progress only
  // Which of these the outbox has now.
  virtual Result<std::vector<EventId>> find_now(std::span<const EventId> ids) = 0;
};

// A consumer's inbox, or a topic. One thread.
class ReceiverScan {
 public:
  virtual ~ReceiverScan() = default;
  // In the order of Received::receiver: "stock", "stock.ledger", or a topic.
  virtual const std::vector<std::string>& names() const = 0;
  virtual Stream<Received>& rows() = 0;
  // What this place keeps back for the receiver: parked, or in a mailbox and not passed yet. Null:
  // it keeps nothing back.
  virtual Stream<Held>* held() { return nullptr; }
  virtual const Place& place() const = 0;
  // Everything that was received of events written at this time or later is still there. Asks now.
  virtual Result<WallTime> retained_since() = 0;
};

}  // namespace dovetail::reconcile
