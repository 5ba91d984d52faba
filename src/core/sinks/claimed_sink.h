// Runs effects outside the consumer's database, such as requests and programs, under claims: each
// event is held by one consumer at a time, and known as done when it comes again.
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

namespace dovetail {

struct ClaimedSinkOptions {
  // How long a claim holds. Longer than one call of the inner sink may take, its time limit
  // included.
  Duration lease = std::chrono::seconds(60);
  std::uint32_t attempts_max = 5;  // an event that ends the process so often is rejected
  // Calls that the inner sink makes at a time. So many events of different keys are claimed, each
  // just before its call; while calls take a small part of the lease, more of them ahead.
  std::size_t calls_max = 16;
  std::size_t ahead_max = 240;
};

// Claims, then submits to the inner sink, then completes: at least once. The effect happens again
// when the process dies, or loses its claim, between the effect and its completion; the event's id
// is what the receiver can know it by. A process that dies leaves its claims behind: those events
// come back as `again` until the lease has ended, and the attempt counts. One that only loses its
// database completes what was done when it is back.
//
// A relay that starts over, because its lease ran out or a database was away for a moment, opens
// its sink again. What is on its way then goes on: it is claimed, so nobody else does it, and
// giving it up would only do it twice. The same event, when it comes again, waits for that to end.
//
// A call that outlasts its claim is given up as in_doubt with everything in flight: another
// consumer may be at it already. So the relay needs no time limit of its own for a batch, and one
// that is shorter than all calls of a batch take would only repeat them.
//
// Store, inner sink and clock outlive it. One thread at a time. Keeps a key's order on failure
// whatever the inner sink does: it then has one of a key at a time.
class ClaimedSink final : public Sink {
 public:
  ClaimedSink(ClaimStore& store, Sink& inner, Clock& clock, ClaimedSinkOptions options);

  // Opens the inner sink only where that is of no use any more: then it gives up its calls, and
  // what was claimed for them is let go of.
  Status open() override;
  Status submit(Events events) override;
  // Does its work here, as the inbox does.
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }

  // Gives up what is still on its way and lets go of it, so that the next process need not wait for
  // the lease to end. Without it nothing is lost either.
  Status close() override;

 private:
  struct Submission;
  struct Item {
    const Event* event = nullptr;
    Submission* submission = nullptr;
    std::int64_t epoch = 0;
    std::uint32_t attempts = 0;
    bool is_chosen = false;  // to be claimed, or claimed
    Outcome outcome{};
  };
  struct Submission {
    std::uint64_t number = 0;
    std::vector<Item> items{};
    std::size_t unresolved = 0;
  };
  // One event in the inner sink.
  struct Call {
    Item* item = nullptr;  // none: the sink was opened again since
    EventId id{};
    std::uint64_t key = 0;
    std::int64_t epoch = 0;
    std::uint32_t attempts = 0;
    Outcome outcome{};
  };
  // Claimed together and handed to the inner sink together, as copies: they outlive what the relay
  // has submitted.
  struct Wave {
    TimePoint claimed_at{};
    std::vector<Call> calls{};
    Batch events{};
    std::vector<Outcome> outcomes{};
  };
  // Claims of one kind, as the store takes them.
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

  std::deque<std::unique_ptr<Submission>> submitted_;
  std::deque<Item*> waiting_;  // not claimed yet, in the order of submission
  std::deque<Wave> waves_;     // in the inner sink's order; outlive open() where calls go on
  bool is_inner_open_ = false;
  std::size_t in_flight_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> keys_in_flight_;
  FailedKeys failed_;
  std::size_t calls_;      // how many are claimed to be started at once
  std::size_t ahead_ = 0;  // how many may be claimed before their calls can start

  // Outlive open(): what the store still has of us.
  std::map<EventId, std::int64_t> held_;      // claimed, and not known to be completed or released
  std::map<EventId, std::int64_t> finished_;  // of these, whose effects happened

  // Scratch.
  std::vector<Item*> chosen_;
  std::vector<const Event*> chosen_events_;
  std::vector<Item*> skipped_;
  std::vector<Call> done_;  // confirmed by the inner sink, not completed yet
  Claims untried_;
  Claims parked_;
};

}  // namespace dovetail
