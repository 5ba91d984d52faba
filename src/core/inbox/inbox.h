// The inbox: a sink that applies each event once. The inbox row, the handler's effect and the
// events it publishes commit in one transaction of the consumer's database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "core/event/bounded_ids.h"
#include "core/inbox/key_fence.h"
#include "core/relay/sink.h"

namespace dovetail {

// What the inbox table says about an arriving event.
enum class Arrival : std::uint8_t {
  first,       // never applied: call the handler
  duplicate,   // applied before
  superseded,  // a later version of its aggregate is applied, and the version guard is on
  forgotten,   // so old that it may have been applied and forgotten
  conflict,    // an event with the same id and another payload was applied
};

// Why a forgotten or conflicting event is parked.
std::string_view refusal_of(Arrival arrival);

// One consumer's database, as the inbox needs it. One thread at a time. A failed call leaves no
// transaction open, except apply(): then the inbox rolls back.
class InboxStore {
 public:
  virtual ~InboxStore() = default;

  // Connects, or reconnects and thereby rolls back. True: the last session ended by close(). False:
  // it died, perhaps inside a handler.
  virtual Result<bool> open() = 0;

  virtual Status begin() = 0;
  // Inserts the inbox rows; arrivals[i] is the result for events[i]. Waits while another consumer
  // inserts the same row. A forgotten event gets no row; a conflict does not change the row.
  virtual Status insert(Events events, std::span<Arrival> arrivals) = 0;
  // Calls the handler inside the transaction for each event, in order; all have arrived first. When
  // it returns, all their statements are finished. An error belongs to one of them, but it is not
  // known which one unless there is only one. unavailable: the database or a dependency of the
  // handler is away, no attempt counts. rejected: the handler will never accept it. failed, and any
  // other code: it failed this time.
  virtual Status apply(Events events) = 0;
  // Whether a handler wants the event. Without one, its row alone makes it applied.
  virtual bool wants(const Event&) const { return true; }
  // After a failed apply(): whether its database connection broke. Always false for a store without
  // a connection.
  virtual bool broke() const { return false; }
  // Adds to the consumer's totals and commits. in_doubt: it may have committed.
  virtual Status commit(std::uint64_t applied, std::uint64_t duplicates) = 0;
  virtual void rollback() = 0;

  // In its own transaction, durable when it returns: adds `change` to the event's attempts (+1
  // before a try; negative to take back an attempt that should not count), never below zero.
  // Returns the new count.
  virtual Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) = 0;
  // Records that this session ended cleanly.
  virtual Status close() = 0;
};

// How often the handler of one event may end the process before the event is parked. It is below
// the limit for failures, because each time it takes the whole process down.
constexpr std::uint32_t deaths_max(std::uint32_t attempts_max) {
  return attempts_max < 5 ? attempts_max : 5;
}

struct InboxOptions {
  std::uint32_t attempts_max = 5;   // an event that ends the process this often is rejected
  std::size_t suspects_max = 1000;  // how many events are tried alone after a session that died
  // Each event alone takes several round trips. After this many, collect() says "not yet", so that
  // the relay can renew its lease.
  std::size_t alone_at_a_time = 50;
  // Limit of the ids remembered because they broke the connection or used up their attempts.
  std::size_t breaking_max = 1000;
};

// The sink. It works in collect(). Normally a batch is one transaction. If an event fails, the
// transaction is rolled back and each event is tried alone. Its attempt is counted durably before
// the handler runs, so a handler that kills the process is found. When the handler returns, with
// any result, that attempt is taken back: only the relay sees whether other events pass.
//
// If the connection breaks while one event alone is in its handler, either the database went away,
// or the handler made the server end the connection. The first time, it is taken for an outage and
// costs no attempt. If the connection breaks again at the next try of the same event, the event is
// the cause: this attempt and each such later one count.
class Inbox final : public Sink {
 public:
  Inbox(InboxStore& store, InboxOptions options);

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }

  // Tells the next session that this one ended cleanly.
  Status close() override;

 private:
  struct Submitted {
    std::uint64_t number;
    std::vector<const Event*> events;
    std::vector<Outcome> alone{};  // of the events tried alone so far
    bool is_tried_alone = false;
  };
  enum class BatchResult : std::uint8_t { committed, try_alone };

  Result<BatchResult> apply_together(const Submitted& batch, std::span<Outcome> outcomes);
  Result<bool> apply_alone(Submitted& batch);
  Status apply_one(const Event& event, Outcome& outcome);
  Status judge(const Event& event, const Error& error, std::uint32_t attempts, Outcome& outcome);
  Status forgive(const EventId& id, std::int64_t count);
  Status refuse(Arrival why, Outcome& outcome);
  void suspect_together();
  bool breaks_again(const EventId& id);
  bool fenced(const Event& event, std::uint64_t batch, Outcome& outcome);

  InboxStore& store_;
  InboxOptions options_;
  std::deque<Submitted> submitted_;
  std::uint64_t last_submitted_ = 0;
  std::size_t suspects_left_ = 0;
  bool opened_before_ = false;
  std::optional<EventId> interrupted_;  // the database went away after its attempt was counted
  BoundedIds over_limit_;               // seen once with too many attempts
  std::set<EventId> broke_together_;    // the events of a batch in which the connection broke
  BoundedIds broke_alone_;              // events whose last try, alone, broke the connection
  KeyFence fence_;
  // Reused by apply_together().
  std::vector<const Event*> tried_;
  std::vector<std::size_t> tried_index_;
  std::vector<Arrival> arrivals_;
  std::vector<const Event*> firsts_;
};

// The sink together with the store that it works on.
std::shared_ptr<Sink> inbox_on(std::unique_ptr<InboxStore> store, InboxOptions options);

}  // namespace dovetail
