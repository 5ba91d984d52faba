// How one event fares: its place in the line of its key, what becomes of it after the sink has
// spoken, and parking.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/mutant.h"
#include "core/relay.h"
#include "core/relay_state.h"

namespace dovetail {

namespace {

OrderKey order_key(const Event& event) {
  return {std::string(event.aggregate_type), std::string(event.aggregate_id)};
}

std::string describe(const Event& event) {
  return event.id.to_string() + " (" + std::string(event.aggregate_type) + " " +
         std::string(event.aggregate_id) + ")";
}

}  // namespace

std::unique_ptr<Relay::Flight> Relay::take_flight(bool replay) {
  std::unique_ptr<Flight> flight;
  if (spare_flights_.empty()) {
    flight = std::make_unique<Flight>();
  } else {
    flight = std::move(spare_flights_.back());
    spare_flights_.pop_back();
    flight->batch.clear();
    flight->attempts.clear();
    flight->delivered.clear();
  }
  flight->replay = replay;
  return flight;
}

void Relay::admit(Flight& flight) {
  const std::span<Event> events = flight.batch.events();
  flight.slots.assign(events.size(), Slot{});
  flight.unresolved = events.size();
  for (std::size_t i = 0; i < events.size(); ++i) {
    Slot& slot = flight.slots[i];
    slot.event = &events[i];
    slot.flight = &flight;
    slot.order = next_order_++;
    if (flight.replay) slot.attempts = flight.attempts[i];
    if (ports_.topics != nullptr) {
      events[i].topic = ports_.topics->route(events[i], flight.batch.arena());
    }
    if (flight.replay && !may_replay(slot)) {
      finish(slot, Settled::parked);
    } else {
      place(slot);
    }
  }
}

bool Relay::is_blocked(const Event& event) const {
  return !blocked_.empty() && event.has_key() && blocked_.contains(order_key(event));
}

// A key's parked events may go out again only when nothing of that key is in flight any more.
bool Relay::may_replay(const Slot& slot) const {
  if (!slot.event->has_key()) return true;
  const auto blocked = blocked_.find(order_key(*slot.event));
  return blocked == blocked_.end() || blocked->second <= submissions_collected_;
}

bool Relay::sends_many_of_a_key() const {
  return ports_.sink.keeps_order_on_failure() || options_.order_relaxed;
}

// Whether an earlier event of the key went back to parking from the same replay: then this one,
// which is still there too, waits behind it.
bool Relay::went_back_before(const Slot& slot) const {
  for (const Slot& earlier : slot.flight->slots) {
    if (&earlier == &slot) return false;
    if (earlier.fate == Settled::parked && earlier.same_key(slot)) return true;
  }
  return false;
}

void Relay::place(Slot& slot) {
  if (slot.flight->replay && went_back_before(slot)) return finish(slot, Settled::parked);
  if (!slot.flight->replay && is_blocked(*slot.event)) return park_behind(slot);
  const std::uint64_t key = slot.line_key();
  if (lines_.contains(key)) {
    join_line(key, slot);
    return advance_line(key);
  }
  const bool one_at_a_time = !sends_many_of_a_key() && slot.event->has_key();
  if (one_at_a_time && !DOVETAIL_MUTANT(two_of_a_key_in_flight)) lines_[key].in_flight = true;
  ready_.push_back(&slot);
}

// Keeps the line in read order: an event that comes back from the sink stands before those read
// after it.
void Relay::join_line(std::uint64_t key, Slot& slot) {
  Line& line = lines_[key];
  slot.next = nullptr;
  if (line.head == nullptr) {
    line.head = line.tail = &slot;
  } else if (line.tail->order < slot.order) {
    line.tail->next = &slot;
    line.tail = &slot;
  } else {
    Slot** at = &line.head;
    while ((*at)->order < slot.order) at = &(*at)->next;
    slot.next = *at;
    *at = &slot;
  }
}

// Sends what may go: all of the line where many of a key may be in flight, else one.
void Relay::advance_line(std::uint64_t key) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  Line& line = found->second;
  if (line.held || line.in_flight) return;
  const bool all = sends_many_of_a_key();
  while (line.head != nullptr) {
    Slot* const slot = std::exchange(line.head, line.head->next);
    ready_.push_back(slot);
    if (!all) {
      line.in_flight = slot->event->has_key();
      break;
    }
  }
  if (line.head == nullptr && !line.in_flight) lines_.erase(found);
}

// The one of this key that was in flight is done.
void Relay::leave_line(std::uint64_t key) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  found->second.in_flight = false;
  advance_line(key);
}

// Takes back what was about to be sent of this key, because something before it came back from the
// sink. Where one of a key is in flight at a time, a second one never gets that far.
void Relay::recall(std::uint64_t key) {
  if (!sends_many_of_a_key() || DOVETAIL_MUTANT(ready_not_recalled)) return;
  std::erase_if(ready_, [&](Slot* slot) {
    if (slot->line_key() != key) return false;
    join_line(key, *slot);
    return true;
  });
}

void Relay::hold_line(std::uint64_t key, Duration delay) {
  if (lines_[key].held) return;
  recall(key);
  Line& line = lines_[key];
  line.held = true;
  line.in_flight = false;
  line.due = ports_.clock.now() + delay;
  line.after_submission = submissions_made_;
  held_.emplace(line.due, key);
}

void Relay::release_due_lines() {
  if (held_.empty()) return;
  const TimePoint now = ports_.clock.now();
  for (auto it = held_.begin(); it != held_.end() && it->first <= now;) {
    const std::uint64_t key = it->second;
    Line& line = lines_.at(key);
    if (line.after_submission > submissions_collected_) {
      ++it;
      continue;
    }
    it = held_.erase(it);
    line.held = false;
    advance_line(key);
  }
}

// When only keys that wait to be tried again fill the window, they wait in parking instead, so that
// others flow. Where nothing counts as a failure, this may be an outage, and parking must not fill
// with events that nothing is wrong with: so one such key makes room, and the next one only after
// something was confirmed.
void Relay::park_held_lines() {
  if (held_.empty() || window_has_room() || !sink_open_ || !ready_.empty() || !submitted_.empty()) {
    return;
  }
  const TimePoint now = ports_.clock.now();
  for (auto it = held_.begin(); it != held_.end();) {
    const auto [due, key] = *it;
    Line& line = lines_.at(key);
    if (line.head->attempts == 0 && !std::exchange(may_be_no_outage_, false)) {
      ++it;
      continue;
    }
    it = held_.erase(it);
    line.held = false;
    Slot* const head = std::exchange(line.head, line.head->next);
    park(*head, ParkState::waiting, std::max(due - now, Duration{0}),
         "waits for its next attempt; the window was needed for other keys");
  }
}

void Relay::resolve(Slot& slot, const Outcome& outcome) {
  switch (outcome.fate) {
    case Fate::confirmed:
    case Fate::duplicate:
      return deliver(slot, outcome.fate == Fate::duplicate);
    case Fate::rejected:
      ports_.metrics.rejected.fetch_add(1, std::memory_order_relaxed);
      slot.attempts = std::max(slot.attempts + 1, outcome.attempts);
      return park(slot, ParkState::parked, {}, outcome.reason);
    case Fate::failed:
      ports_.metrics.failed.fetch_add(1, std::memory_order_relaxed);
      slot.attempts = std::max(slot.attempts + 1, outcome.attempts);
      if (slot.attempts >= options_.attempts_max) {
        return park(slot, ParkState::parked, {}, outcome.reason);
      }
      return retry_later(slot, outcome);
    case Fate::again:
    case Fate::busy:
      return retry_later(slot, outcome);
  }
}

void Relay::deliver(Slot& slot, bool duplicate) {
  ports_.metrics.confirmed.fetch_add(1, std::memory_order_relaxed);
  if (duplicate) ports_.metrics.duplicates.fetch_add(1, std::memory_order_relaxed);
  if (!duplicate) may_be_no_outage_ = true;
  ports_.metrics.commit_to_confirm.observe(now_wall_ - slot.event->created_at);
  if (slot.flight->replay) {
    ports_.metrics.replayed.fetch_add(1, std::memory_order_relaxed);
    slot.flight->delivered.push_back(slot.event->id);
  }
  finish(slot, Settled::delivered);
  if (!lines_.empty()) leave_line(slot.line_key());
}

void Relay::retry_later(Slot& slot, const Outcome& outcome) {
  const Duration delay = retry_delay(options_.key_retry, slot.repeats, random_);
  ++slot.repeats;
  if (slot.flight->replay) return park(slot, ParkState::waiting, delay, outcome.reason);
  if (is_blocked(*slot.event)) return park_now(slot);
  const std::uint64_t key = slot.line_key();
  join_line(key, slot);
  hold_line(key, delay);
}

// Decides that an event goes to parking, and with it everything of its key that waits here.
void Relay::park(Slot& slot, ParkState state, Duration delay, std::string reason) {
  if (reason.empty()) reason = "the sink gave no reason";
  if (state == ParkState::parked) {
    note(RelayNotice::Kind::parked, describe(*slot.event) + ": " + reason);
  }
  park_requests_.push_back(ParkRequest{slot.event, state, slot.attempts,
                                       ports_.clock.wall() + delay, std::move(reason)});
  park_slots_.push_back(&slot);
  slot.fate = Settled::parked;
  if (DOVETAIL_MUTANT(settle_before_park)) finish(slot, Settled::parked);
  block_key(slot);
  park_line(slot);
}

// What the source could not make sense of is not sent. It stands in parking only when what precedes
// it on its key is safe, as everything there does.
void Relay::park_defects() {
  while (!ready_.empty() && !ready_.front()->event->defect.empty()) {
    Slot& slot = *ready_.front();
    ready_.pop_front();
    note(RelayNotice::Kind::parked, describe(*slot.event) + ": " + std::string(slot.event->defect));
    block_key(slot);
    park_behind(slot);
    park_line(slot);
  }
}

void Relay::block_key(const Slot& slot) {
  if (!slot.event->has_key() || DOVETAIL_MUTANT(no_key_block_after_refusal)) return;
  blocked_[order_key(*slot.event)] = submissions_made_;
  ports_.metrics.blocked_keys = blocked_.size();
}

// Everything that waits here for an event that goes to parking follows it.
void Relay::park_line(const Slot& slot) {
  const std::uint64_t key = slot.line_key();
  recall(key);
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  Line& line = found->second;
  if (line.held) held_.erase({line.due, key});
  line.held = false;
  line.in_flight = false;
  // Different keys can share a hash; those of the other key stay.
  Slot* waiting = std::exchange(line.head, nullptr);
  line.tail = nullptr;
  while (waiting != nullptr) {
    Slot* const next = waiting->next;
    if (waiting->flight->replay && waiting->same_key(slot)) {
      finish(*waiting, Settled::parked);
    } else if (waiting->same_key(slot) && is_blocked(*slot.event)) {
      park_behind(*waiting);
    } else {
      join_line(key, *waiting);
    }
    waiting = next;
  }
  advance_line(key);
}

// An event may stand in parking only when everything before it on its key is safe. While some of it
// may still be in flight, it waits here: after a crash it would be replayed before what is read
// again.
void Relay::park_behind(Slot& slot) {
  const auto blocked = blocked_.find(order_key(*slot.event));
  const bool in_flight = blocked != blocked_.end() && blocked->second > submissions_collected_;
  if (in_flight && !DOVETAIL_MUTANT(parked_past_flight)) {
    behind_flight_.push_back(&slot);
    return;
  }
  park_now(slot);
}

void Relay::park_now(Slot& slot) {
  const std::string_view defect = slot.event->defect;
  park_requests_.push_back(ParkRequest{
      slot.event, defect.empty() ? ParkState::waiting : ParkState::parked, slot.attempts,
      ports_.clock.wall(),
      std::string(defect.empty() ? "waits behind an earlier event of its key" : defect)});
  park_slots_.push_back(&slot);
}

Status Relay::park_pending() {
  for (Slot* const slot : std::exchange(behind_flight_, {})) park_behind(*slot);
  if (park_requests_.empty()) return {};
  DOVETAIL_TRY(ports_.parking.park(park_requests_));
  ports_.metrics.parked.fetch_add(park_requests_.size(), std::memory_order_relaxed);
  for (Slot* const slot : park_slots_) finish(*slot, Settled::parked);
  park_requests_.clear();
  park_slots_.clear();
  if (blocked_.size() <= options_.blocked_keys_max) return {};
  return fail(Errc::rejected,
              std::to_string(blocked_.size()) +
                  " keys are parked, more than blocked_keys_max; this is not poison but an "
                  "outage: check the sink or the handler, then replay");
}

void Relay::finish(Slot& slot, Settled fate) {
  if (slot.finished) return;
  slot.finished = true;
  slot.fate = fate;
  --slot.flight->unresolved;
}

Status Relay::take_replays() {
  const TimePoint now = ports_.clock.now();
  if (replay_ || now < replay_poll_at_) return {};
  // Without a blocked key only an event without a key can be due.
  replay_poll_at_ = now + (blocked_.empty() ? 4 : 1) * options_.replay_poll;
  std::unique_ptr<Flight> flight = take_flight(true);
  Limits limits;
  limits.events_max = options_.batch_events_max;
  limits.bytes_max = options_.batch_bytes_max;
  DOVETAIL_TRY(
      ports_.parking.take_due(flight->batch, flight->attempts, limits, ports_.clock.wall()));
  if (flight->batch.empty()) {
    spare_flights_.push_back(std::move(flight));
    return blocked_.empty() ? Status{} : reload_blocked_keys();
  }
  DOVETAIL_CHECK(flight->attempts.size() == flight->batch.size());
  replay_ = std::move(flight);
  admit(*replay_);
  return {};
}

Status Relay::finish_replay() {
  const bool progress = !replay_->delivered.empty();
  if (progress) {
    DOVETAIL_TRY(ports_.parking.delivered(replay_->delivered));
    replay_poll_at_ = {};
  }
  spare_flights_.push_back(std::move(replay_));
  return reload_blocked_keys();
}

// A key that is free in the store stays blocked here while something of it may still be in flight.
Status Relay::reload_blocked_keys() {
  std::vector<OrderKey> keys;
  DOVETAIL_TRY(ports_.parking.blocked_keys(keys));
  std::map<OrderKey, std::uint64_t> stored;
  for (OrderKey& key : keys) stored.emplace(std::move(key), 0);
  for (const auto& [key, after] : blocked_) {
    const auto found = stored.find(key);
    if (found != stored.end()) {
      found->second = after;
    } else if (after > submissions_collected_) {
      stored.emplace(key, after);
    } else {
      note(RelayNotice::Kind::key_released, key.first + " " + key.second + " flows again");
    }
  }
  blocked_ = std::move(stored);
  ports_.metrics.blocked_keys = blocked_.size();
  return {};
}

}  // namespace dovetail
