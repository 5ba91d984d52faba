// Runs external effects, such as requests and programs, under claims: one consumer at a time holds
// an event, and a repeated event is known as done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/event/batch.h"
#include "core/failure/failed_keys.h"
#include "core/inbox/claims.h"
#include "core/relay/sink.h"
#include "core/sinks/submissions.h"

namespace dovetail {

struct ClaimedSinkOptions {
  // How long a claim holds. It must be longer than one call of the inner sink, including its
  // timeout.
  Duration lease = std::chrono::seconds(60);
  std::uint32_t attempts_max = 5;  // an event that ends the process so often is rejected
  // Calls that the inner sink makes at a time. As many events of different keys are claimed, each
  // just before its call; more are claimed ahead while calls are short compared with the lease.
  std::size_t calls_max = 16;
  std::size_t ahead_max = 240;
};

// Claims an event, submits it to the inner sink, then completes the claim: at least once. The
// effect repeats if the process dies or loses the claim between effect and completion; the receiver
// can recognise it by the event id. After a crash the claims stay: their events come back as
// `again` until the lease ends, and the attempt counts. If only the database was away, finished
// claims are completed when it is back.
//
// A relay that starts over, because its lease ran out or a database was briefly away, opens its
// sink again. Running calls then continue: their events are claimed, so no other consumer repeats
// them. If such an event comes again, it waits for its call.
//
// If a call outlasts its claim, everything in flight is given up as in_doubt: another consumer may
// have started it. So the relay needs no time limit per batch; a limit shorter than all calls of a
// batch would only repeat them.
//
// Store, inner sink and clock outlive it. One thread at a time. It keeps a key's order after a
// failure even if the inner sink does not: then only one event of a key is in flight.
class ClaimedSink final : public Sink {
 public:
  ClaimedSink(ClaimStore& store, Sink& inner, Clock& clock, ClaimedSinkOptions options);

  // Reopens the inner sink only if it is broken. The inner sink then gives up its calls, and their
  // claims are released.
  Status open() override;
  Status submit(Events events) override;
  // Does its work here, as the inbox does.
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }

  // Gives up running calls and releases their claims, so that the next process need not wait for
  // the leases. Nothing is lost without it.
  Status close() override;

 private:
  struct ClaimOf {
    std::int64_t epoch = 0;
    std::uint32_t attempts = 0;
    bool is_chosen = false;  // to be claimed, or claimed already
  };
  using Item = Submissions<ClaimOf>::Item;
  // One event in the inner sink.
  struct Call {
    Item* item = nullptr;  // null: the sink was opened again since
    EventId id{};
    std::uint64_t key = 0;
    std::int64_t epoch = 0;
    std::uint32_t attempts = 0;
    Outcome outcome{};
  };
  // Events claimed together and given to the inner sink together. They are copies, because they
  // outlive the relay's batch.
  struct Wave {
    TimePoint claimed_at{};
    std::vector<Call> calls{};
    Batch events{};
    std::vector<Outcome> outcomes{};
  };
  // Claims with the same result, as the store takes them.
  struct Claims {
    std::vector<EventId> ids{};
    std::vector<std::int64_t> epochs{};
    void add(const EventId& id, std::int64_t epoch);
    void clear();
  };

  Result<bool> start();
  tl::unexpected<Error> ran_out();
  bool choose(std::size_t room);
  bool must_wait(const Item& item) const;
  Status claim_chosen();
  void sort_claim(Item& item, const Claim& claim, Wave& wave);
  Status submit_wave(Wave wave);
  Result<bool> collect_waves(Duration timeout);
  void sort_outcome(Call& call, Outcome outcome);
  void retry_abandoned_call(const Call& call);
  Status complete_finished();
  Status settle();
  Status complete_done();
  Status let_go(Claims& claims, ReleaseReason how);
  Status let_go_all();
  bool can_go_on() const;
  void keep_calls();
  void leave_key(std::uint64_t key);
  void learn_pace(Duration took);
  void resolve(Item& item, Outcome outcome);
  bool hand_out(std::span<Outcome> outcomes);

  ClaimStore& store_;
  Sink& inner_;
  Clock& clock_;
  ClaimedSinkOptions options_;

  Submissions<ClaimOf> submitted_;
  std::deque<Item*> waiting_;  // not claimed yet, in the order of submission
  std::deque<Wave> waves_;     // in the order of the inner sink; kept over open() while calls run
  bool is_inner_open_ = false;
  std::size_t in_flight_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> keys_in_flight_;
  FailedKeys failed_;
  std::size_t calls_;      // how many are claimed to start at once
  std::size_t ahead_ = 0;  // how many may be claimed before their calls can start

  // Kept over open(): the claims that the store may still have for us.
  std::map<EventId, std::int64_t> held_;      // claimed, and not known to be completed or released
  std::map<EventId, std::int64_t> finished_;  // of these, the effect happened

  // Reused.
  std::vector<Item*> chosen_;
  std::vector<const Event*> chosen_events_;
  std::vector<Item*> skipped_;
  std::vector<Call> done_;  // confirmed by the inner sink, not completed yet
  Claims untried_;
  Claims parked_;
};

}  // namespace dovetail
