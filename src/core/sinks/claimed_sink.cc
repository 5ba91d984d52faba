#include "core/sinks/claimed_sink.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/inbox/inbox.h"

namespace dovetail {

namespace {

constexpr std::size_t kAheadStep = 8;

}  // namespace

void ClaimedSink::Claims::add(const EventId& id, std::int64_t epoch) {
  ids.push_back(id);
  epochs.push_back(epoch);
}

void ClaimedSink::Claims::clear() {
  ids.clear();
  epochs.clear();
}

ClaimedSink::ClaimedSink(ClaimStore& store, Sink& inner, Clock& clock, ClaimedSinkOptions options)
    : store_(store), inner_(inner), clock_(clock), options_(options), calls_(options.calls_max) {
  DOVETAIL_CHECK(options_.calls_max > 0);
}

Status ClaimedSink::open() {
  submitted_.clear();
  waiting_.clear();
  failed_.clear();
  done_.clear();
  untried_.clear();
  parked_.clear();
  DOVETAIL_TRY(store_.open());
  // A finished effect must not be repeated because the database was briefly unavailable.
  DOVETAIL_TRY(complete_finished());
  // open() ends the inner sink's calls even if it fails; only then may others claim the events.
  Status opened;
  if (!can_go_on()) {
    waves_.clear();
    opened = inner_.open();
    is_inner_open_ = opened.has_value();
  }
  keep_calls();
  DOVETAIL_TRY(let_go(untried_, ReleaseReason::untried));
  return opened;
}

// The inner sink works, and no claim expired during a call.
bool ClaimedSink::can_go_on() const {
  if (!is_inner_open_) return false;
  return waves_.empty() || clock_.now() < waves_.front().claimed_at + options_.lease;
}

// Calls in flight no longer belong to a submission. All other claims are released.
void ClaimedSink::keep_calls() {
  in_flight_ = 0;
  keys_in_flight_.clear();
  std::set<EventId> kept;
  for (Wave& wave : waves_) {
    in_flight_ += wave.calls.size();
    for (Call& call : wave.calls) {
      call.item = nullptr;
      kept.insert(call.id);
      if (call.key != 0) ++keys_in_flight_[call.key];
    }
  }
  for (const auto& [id, epoch] : held_)
    if (!kept.contains(id)) untried_.add(id, epoch);
}

Status ClaimedSink::close() {
  if (held_.empty()) return {};
  is_inner_open_ = false;
  const Status opened = open();
  // An unavailable endpoint has none of our calls.
  if (held_.empty()) return {};
  return opened;
}

Status ClaimedSink::complete_finished() {
  if (finished_.empty()) return {};
  Claims claims;
  for (const auto& [id, epoch] : finished_) claims.add(id, epoch);
  const auto done = std::make_unique<bool[]>(claims.ids.size());
  DOVETAIL_TRY(store_.complete(claims.ids, claims.epochs, {done.get(), claims.ids.size()}));
  // If the claim was lost, the next claim of the event shows its outcome.
  for (const EventId& id : claims.ids) held_.erase(id);
  finished_.clear();
  return {};
}

Status ClaimedSink::submit(Events events) {
  for (Item& item : submitted_.add(events, failed_.number_batch())) waiting_.push_back(&item);
  return {};
}

Result<bool> ClaimedSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  const TimePoint until = clock_.now() + timeout;
  for (;;) {
    if (submitted_.empty()) return false;
    const TimePoint now = clock_.now();
    if (!waves_.empty() && now >= waves_.front().claimed_at + options_.lease) return ran_out();
    const Result<bool> started = start();
    if (!started) return started;
    if (hand_out(outcomes)) return true;
    // Some of those may have been duplicates, so there may be room for more.
    const Duration wait = *started ? Duration{0} : std::max(until - now, Duration{0});
    const Result<bool> any = collect_waves(wait);
    if (!any) return any;
    if (*any) {
      DOVETAIL_TRY(settle());
      if (hand_out(outcomes)) return true;
    }
    if (now >= until) return false;
  }
}

tl::unexpected<Error> ClaimedSink::ran_out() {
  // From now on one call at a time, until more are known to end in time. Otherwise calls that slow
  // each other down would be given up and repeated forever.
  ahead_ = 0;
  calls_ = 1;
  is_inner_open_ = false;
  return fail(Errc::in_doubt,
              "a claim expired during its call, so another consumer may take the event; make "
              "`claim` longer than a call takes, and check for pauses of this process");
}

// Claims as many events as there is room for, in one transaction; not one by one while others are
// in flight. True: something was claimed.
Result<bool> ClaimedSink::start() {
  const std::size_t limit = calls_ + ahead_;
  const std::size_t room = limit - std::min(in_flight_, limit);
  if (room == 0 || (in_flight_ > 0 && room < limit / 4)) return false;
  if (!choose(room)) return false;
  DOVETAIL_TRY(claim_chosen());
  return true;
}

// Removes the next claimable events from the queue, at most `room`. Events that must wait keep
// their order.
bool ClaimedSink::choose(std::size_t room) {
  chosen_.clear();
  skipped_.clear();
  while (!waiting_.empty() && chosen_.size() < room) {
    Item& item = *waiting_.front();
    waiting_.pop_front();
    const Event& event = *item.event;
    if (failed_.block(event.key_hash, item.submission->number)) {
      resolve(item, Outcome{Fate::again, 0, "not tried: an earlier event of its key failed"});
    } else if (must_wait(item)) {
      skipped_.push_back(&item);
    } else {
      chosen_.push_back(&item);
      held_.emplace(event.id, 0);
      item.is_chosen = true;
      if (event.has_key()) ++keys_in_flight_[event.key_hash];
    }
  }
  waiting_.insert(waiting_.begin(), skipped_.begin(), skipped_.end());
  return !chosen_.empty();
}

// An inner sink without order of its own gets one event per key at a time. While calls are slow,
// every inner sink does: otherwise the claim of the next event would expire before its call.
bool ClaimedSink::must_wait(const Item& item) const {
  // The same event twice: the second becomes a duplicate when the first is done.
  if (held_.contains(item.event->id)) return true;
  if (!item.event->has_key()) return false;
  const auto found = keys_in_flight_.find(item.event->key_hash);
  if (found == keys_in_flight_.end()) return false;
  const std::size_t limit = inner_.keeps_order_on_failure() ? 1 + ahead_ : 1;
  return found->second >= limit;
}

Status ClaimedSink::claim_chosen() {
  chosen_events_.clear();
  for (const Item* item : chosen_) chosen_events_.push_back(item->event);
  Wave wave;
  wave.claimed_at = clock_.now();
  const Result<std::vector<Claim>> claims = store_.claim(chosen_events_, options_.lease);
  if (!claims) {
    // If the claims were made after all, they expire with their lease, because their epochs are
    // unknown.
    for (const Event* event : chosen_events_) held_.erase(event->id);
    return fail(claims.error());
  }
  DOVETAIL_CHECK(claims->size() == chosen_.size());
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    const Claim& claim = (*claims)[i];
    if (claim.state == Claim::State::first) {
      held_[chosen_[i]->event->id] = claim.epoch;
    } else {
      held_.erase(chosen_[i]->event->id);
    }
  }
  // If the database kept us waiting too long, no call is started.
  if (clock_.now() >= wave.claimed_at + options_.lease) return ran_out();
  in_flight_ += chosen_.size();
  for (std::size_t i = 0; i < chosen_.size(); ++i) sort_claim(*chosen_[i], (*claims)[i], wave);
  DOVETAIL_TRY(let_go_all());
  return submit_wave(std::move(wave));
}

void ClaimedSink::sort_claim(Item& item, const Claim& claim, Wave& wave) {
  const bool is_ours = claim.state == Claim::State::first;
  item.epoch = claim.epoch;
  item.attempts = claim.attempts;
  Outcome outcome;
  if (failed_.block(item.event->key_hash, item.submission->number)) {
    if (is_ours) untried_.add(item.event->id, item.epoch);
    outcome = Outcome{Fate::again, 0, "not tried: an earlier event of its key failed"};
  } else if (is_ours && claim.attempts <= options_.attempts_max) {
    wave.calls.push_back(
        Call{&item, item.event->id, item.event->key_hash, item.epoch, item.attempts, {}});
    wave.events.append(*item.event);
    return;
  } else if (is_ours) {
    parked_.add(item.event->id, item.epoch);
    const std::string times = std::to_string(claim.attempts - 1);
    outcome = Outcome{Fate::rejected, claim.attempts - 1,
                      "it was claimed " + times +
                          " times but neither completed nor released, so its handler ended the "
                          "process or was too slow; check the handler, then replay the event"};
  } else if (claim.state == Claim::State::duplicate) {
    outcome = Outcome{Fate::duplicate, 0, {}};
  } else if (claim.state == Claim::State::in_progress) {
    outcome = Outcome{Fate::again, 0, "another consumer holds it, or died while it held it"};
  } else {
    const bool is_conflict = claim.state == Claim::State::conflict;
    outcome =
        Outcome{Fate::rejected, 0,
                std::string(refusal_of(is_conflict ? Arrival::conflict : Arrival::forgotten))};
  }
  resolve(item, std::move(outcome));
  --in_flight_;
}

Status ClaimedSink::submit_wave(Wave wave) {
  if (wave.calls.empty()) return {};
  waves_.push_back(std::move(wave));
  chosen_events_.clear();
  for (const Event& event : waves_.back().events.events()) chosen_events_.push_back(&event);
  Status submitted = inner_.submit(chosen_events_);
  is_inner_open_ = submitted.has_value();
  return submitted;
}

// Takes the oldest wave if it finishes within `timeout`, and the finished ones after it: all are
// completed in one transaction.
Result<bool> ClaimedSink::collect_waves(Duration timeout) {
  bool any = false;
  while (!waves_.empty()) {
    Wave& wave = waves_.front();
    wave.outcomes.assign(wave.calls.size(), Outcome{});
    const Result<bool> known = inner_.collect(wave.outcomes, any ? Duration{0} : timeout);
    if (!known) {
      is_inner_open_ = false;
      // Keeps the outcomes that are already known.
      if (any) DOVETAIL_TRY(settle());
      return known;
    }
    if (!*known) break;
    any = true;
    learn_pace(clock_.now() - wave.claimed_at);
    for (std::size_t i = 0; i < wave.calls.size(); ++i)
      sort_outcome(wave.calls[i], std::move(wave.outcomes[i]));
    in_flight_ -= wave.calls.size();
    waves_.pop_front();
  }
  return any;
}

void ClaimedSink::learn_pace(Duration took) {
  if (took < options_.lease / 2) calls_ = std::min(options_.calls_max, calls_ * 2);
  if (took > options_.lease / 4) {
    ahead_ = ahead_ / 2 >= kAheadStep ? ahead_ / 2 : 0;
  } else if (took < options_.lease / 16) {
    ahead_ = std::min(options_.ahead_max, std::max(ahead_ * 2, kAheadStep));
  }
}

void ClaimedSink::sort_outcome(Call& call, Outcome outcome) {
  if (outcome.fate == Fate::confirmed || outcome.fate == Fate::duplicate) {
    finished_.emplace(call.id, call.epoch);
    call.outcome = std::move(outcome);
    done_.push_back(std::move(call));
    return;
  }
  if (call.item == nullptr) return retry_abandoned_call(call);
  // The call returned, so it did not end the process, and nothing counts here. The relay judges
  // whether this event is at fault or all fail.
  (outcome.fate == Fate::rejected ? parked_ : untried_).add(call.id, call.epoch);
  resolve(*call.item, std::move(outcome));
}

// Its submission is gone: the event was or will be submitted again, and is tried then.
void ClaimedSink::retry_abandoned_call(const Call& call) {
  untried_.add(call.id, call.epoch);
  leave_key(call.key);
}

Status ClaimedSink::settle() {
  DOVETAIL_TRY(complete_done());
  return let_go_all();
}

Status ClaimedSink::complete_done() {
  if (done_.empty()) return {};
  Claims claims;
  for (const Call& call : done_) claims.add(call.id, call.epoch);
  const auto done = std::make_unique<bool[]>(done_.size());
  DOVETAIL_TRY(store_.complete(claims.ids, claims.epochs, {done.get(), done_.size()}));
  for (std::size_t i = 0; i < done_.size(); ++i) {
    Call& call = done_[i];
    held_.erase(call.id);
    finished_.erase(call.id);
    if (call.item == nullptr) {
      leave_key(call.key);
      continue;
    }
    Outcome outcome = std::move(call.outcome);
    if (!done[i])
      outcome = Outcome{Fate::again, 0,
                        "another consumer took its claim before it was completed; make `claim` "
                        "longer than a call takes, and check for pauses of this process"};
    resolve(*call.item, std::move(outcome));
  }
  done_.clear();
  return {};
}

Status ClaimedSink::let_go(Claims& claims, ReleaseReason how) {
  if (claims.ids.empty()) return {};
  DOVETAIL_TRY(store_.release(claims.ids, claims.epochs, how));
  for (const EventId& id : claims.ids) held_.erase(id);
  claims.clear();
  return {};
}

Status ClaimedSink::let_go_all() {
  DOVETAIL_TRY(let_go(untried_, ReleaseReason::untried));
  return let_go(parked_, ReleaseReason::parked);
}

void ClaimedSink::resolve(Item& item, Outcome outcome) {
  const bool is_safe = outcome.fate == Fate::confirmed || outcome.fate == Fate::duplicate;
  const std::uint64_t key = item.event->key_hash;
  if (!is_safe) failed_.add(key, item.submission->number);
  if (item.is_chosen) leave_key(key);
  submitted_.resolve(item, std::move(outcome));
}

void ClaimedSink::leave_key(std::uint64_t key) {
  if (key == 0) return;
  const auto found = keys_in_flight_.find(key);
  if (--found->second == 0) keys_in_flight_.erase(found);
}

bool ClaimedSink::hand_out(std::span<Outcome> outcomes) {
  if (submitted_.empty() || submitted_.oldest().unresolved > 0) return false;
  failed_.handed_out(submitted_.oldest().number);
  submitted_.hand_out(outcomes);
  return true;
}

}  // namespace dovetail
