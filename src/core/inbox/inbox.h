// The inbox: a sink that applies each event once. The inbox row, the handler's effect and whatever
// the handler publishes commit in one transaction of the consumer's database.
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

// What the inbox's table says about an event that came.
enum class Arrival : std::uint8_t {
  first,       // never applied: the handler is to run
  duplicate,   // applied before
  superseded,  // a later version of its aggregate is applied, and the consumer wants none before it
  forgotten,   // so old that it may have been applied and forgotten since
  conflict,    // another event was applied that has the same id and another payload
};

// Why an event is parked that is forgotten, or a conflict.
std::string_view refusal_of(Arrival arrival);

// One consumer's database, as the inbox needs it. One thread at a time.
// A failed call leaves no transaction open, except apply(), whose transaction the inbox rolls back.
class InboxStore {
 public:
  virtual ~InboxStore() = default;

  // Connects; also reconnects, which rolls back what was open. True: the last session ended by
  // close(). False: it died, perhaps inside a handler.
  virtual Result<bool> open() = 0;

  virtual Status begin() = 0;
  // Inserts the inbox rows; arrivals[i] says what events[i] is. Waits for another consumer that is
  // inserting the same row. A forgotten event gets no row, and a conflict leaves the row as it is.
  virtual Status insert(Events events, std::span<Arrival> arrivals) = 0;
  // Runs the handler inside the transaction for each of these, in this order; all of them are
  // first. On return nothing of theirs is outstanding: an error belongs to one of them, and who it
  // is, is only known when there is one. unavailable: the database or something the handler needs
  // is away, no attempt counts; rejected: the handler will never accept it; any other code: it
  // failed this time.
  virtual Status apply(Events events) = 0;
  // Whether there is a handler for it. Where there is none, it is applied by having its row.
  virtual bool wants(const Event&) const { return true; }
  // After apply() failed: whether the connection to the database broke in it. Always false where
  // there is none.
  virtual bool broke() const { return false; }
  // Adds to the consumer's totals and commits. in_doubt: it may have committed.
  virtual Status commit(std::uint64_t applied, std::uint64_t duplicates) = 0;
  virtual void rollback() = 0;

  // In a transaction of its own, durable before it returns: changes the count of attempts at this
  // event by `change` (+1 before a try; negative to take back what should not count), never below
  // 0. Returns the new count.
  virtual Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) = 0;
  // Records that this session ended without dying.
  virtual Status close() = 0;
};

// So often the handler of one event may end the process before the event is parked: not as often as
// it may fail, because each time takes everybody else down too.
constexpr std::uint32_t deaths_max(std::uint32_t attempts_max) {
  return attempts_max < 5 ? attempts_max : 5;
}

struct InboxOptions {
  std::uint32_t attempts_max = 5;   // an event that ends the process so often is rejected
  std::size_t suspects_max = 1000;  // events tried one by one after a session that died
  // Each takes several round trips, so collect() says "not yet" after so many of them: the relay
  // has a lease to renew.
  std::size_t alone_at_a_time = 50;
  // Events remembered because the connection broke in them, and because they have had all attempts.
  std::size_t breaking_max = 1000;
};

// The sink. Does its work in collect(). Normally a batch is one transaction; when an event of it
// fails, the transaction is rolled back and each event is tried alone, its attempt counted durably
// before the handler runs, so that a handler which kills the process is found out. When the handler
// returns, with whatever error, that is taken back: only the relay sees whether others pass.
//
// A connection that breaks while one event alone is in its handler looks the same whether the
// database went away or the handler made the server end the connection. The first time it is taken
// for an outage, and no attempt counts. When it breaks in the same event the next time that is
// tried, too, it follows the event, and this attempt counts, and each one like it.
class Inbox final : public Sink {
 public:
  Inbox(InboxStore& store, InboxOptions options);

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }

  // The next session then trusts this one.
  Status close() override;

 private:
  struct Submitted {
    std::uint64_t number;
    std::vector<const Event*> events;
    std::vector<Outcome> alone{};  // of those that were tried one by one so far
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
  std::optional<EventId> interrupted_;  // its attempt was counted, and then the database went away
  BoundedIds over_limit_;               // seen once with more attempts than there may be
  std::set<EventId> broke_together_;    // what was tried when the connection broke in a batch
  BoundedIds broke_alone_;              // in whose last try, alone, the connection broke
  KeyFence fence_;
  // Scratch of apply_together.
  std::vector<const Event*> tried_;
  std::vector<std::size_t> tried_index_;
  std::vector<Arrival> arrivals_;
  std::vector<const Event*> firsts_;
};

// With the store that it works on.
std::shared_ptr<Sink> inbox_on(std::unique_ptr<InboxStore> store, InboxOptions options);

}  // namespace dovetail
