// The events of a key: their line, and what happens to each after the sink's answer. Parking is in
// relay_parking.cc.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/mutant.h"
#include "core/relay/relay.h"
#include "core/relay/relay_state.h"

namespace dovetail {

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
  flight.entries.assign(events.size(), Entry{});
  flight.unresolved = events.size();
  for (std::size_t i = 0; i < events.size(); ++i) {
    Entry& entry = flight.entries[i];
    entry.event = &events[i];
    entry.flight = &flight;
    entry.order = next_order_++;
    if (flight.replay) entry.attempts = flight.attempts[i];
    if (!flight.replay && !options_.filter.accepts(events[i])) {
      ports_.metrics.skipped.fetch_add(1, std::memory_order_relaxed);
      finish(entry, Settled::skipped);
      continue;
    }
    if (ports_.topics != nullptr) {
      events[i].topic = ports_.topics->route(events[i], flight.batch.arena());
    }
    if (flight.replay && !may_replay(entry)) {
      finish(entry, Settled::parked);
    } else {
      place(entry);
    }
  }
}

bool Relay::is_blocked(const Event& event) const {
  return !blocked_.empty() && event.has_key() && blocked_.contains(order_key(event));
}

// Parked events of a key may be sent again only when no event of the key is in flight.
bool Relay::may_replay(const Entry& entry) const {
  if (!entry.event->has_key()) return true;
  const auto blocked = blocked_.find(order_key(*entry.event));
  return blocked == blocked_.end() || blocked->second <= submissions_collected_;
}

bool Relay::sends_many_of_a_key() const {
  return ports_.sink.keeps_order_on_failure() || options_.order_relaxed;
}

// Whether an earlier event of the key went back to parking from the same replay. Then this one,
// which is still in parking, too, waits behind it.
bool Relay::went_back_before(const Entry& entry) const {
  for (const Entry& earlier : entry.flight->entries) {
    if (&earlier == &entry) return false;
    if (earlier.fate == Settled::parked && earlier.same_key(entry)) return true;
  }
  return false;
}

void Relay::place(Entry& entry) {
  if (entry.flight->replay && went_back_before(entry)) return finish(entry, Settled::parked);
  if (!entry.flight->replay && is_blocked(*entry.event)) return park_behind(entry);
  const std::uint64_t key = entry.line_key();
  if (lines_.contains(key)) {
    join_line(key, entry);
    return advance_line(key);
  }
  const bool one_at_a_time = !sends_many_of_a_key() && entry.event->has_key();
  if (one_at_a_time && !DOVETAIL_MUTANT(two_of_a_key_in_flight)) lines_[key].in_flight = true;
  ready_.push_back(&entry);
}

// Keeps the line in read order: an event that comes back from the sink goes before those read after
// it.
void Relay::join_line(std::uint64_t key, Entry& entry) {
  Line& line = lines_[key];
  entry.next = nullptr;
  if (line.head == nullptr) {
    line.head = line.tail = &entry;
  } else if (line.tail->order < entry.order) {
    line.tail->next = &entry;
    line.tail = &entry;
  } else {
    Entry** at = &line.head;
    while ((*at)->order < entry.order) at = &(*at)->next;
    entry.next = *at;
    *at = &entry;
  }
}

// Makes events of the line ready: all if many of a key may be in flight, else one.
void Relay::advance_line(std::uint64_t key) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  Line& line = found->second;
  if (line.held || line.in_flight) return;
  const bool all = sends_many_of_a_key();
  while (line.head != nullptr) {
    Entry* const entry = std::exchange(line.head, line.head->next);
    ready_.push_back(entry);
    if (!all) {
      line.in_flight = entry->event->has_key();
      break;
    }
  }
  if (line.head == nullptr && !line.in_flight) lines_.erase(found);
}

// The event of this key that was in flight is done.
void Relay::leave_line(std::uint64_t key) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  found->second.in_flight = false;
  advance_line(key);
}

// Takes back ready events of this key, because an earlier one came back from the sink. With one
// event per key in flight, there are none.
void Relay::recall(std::uint64_t key) {
  if (!sends_many_of_a_key() || DOVETAIL_MUTANT(ready_not_recalled)) return;
  std::erase_if(ready_, [&](Entry* entry) {
    if (entry->line_key() != key) return false;
    join_line(key, *entry);
    return true;
  });
}

void Relay::hold_line(std::uint64_t key, Duration delay, bool counts) {
  if (lines_[key].held) return;
  recall(key);
  Line& line = lines_[key];
  line.held = true;
  line.counts = counts;
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

// The sink has recovered: events that failed while it was sick need not wait.
void Relay::release_uncounted_lines() {
  const TimePoint now = ports_.clock.now();
  Held later;
  for (const auto& [due, key] : held_) {
    Line& line = lines_.at(key);
    if (!line.counts) line.due = std::min(line.due, now);
    later.emplace(line.due, key);
  }
  held_ = std::move(later);
}

void Relay::resolve(Entry& entry, const Outcome& outcome) {
  switch (outcome.fate) {
    case Fate::confirmed:
    case Fate::duplicate:
      return deliver(entry, outcome);
    case Fate::rejected:
      ports_.metrics.rejected.fetch_add(1, std::memory_order_relaxed);
      entry.attempts = std::max(entry.attempts + 1, outcome.attempts);
      policy_.answered(entry.event->id);
      return park(entry, ParkState::parked, {}, outcome.reason);
    case Fate::failed:
    case Fate::busy:
      ports_.metrics.failed.fetch_add(1, std::memory_order_relaxed);
      last_failure_ = outcome.reason;
      return fail_once(entry, outcome);
    case Fate::again:
      return fail_once(entry, outcome);
  }
}

void Relay::fail_once(Entry& entry, const Outcome& outcome) {
  if (outcome.fate == Fate::again) {
    // Behind a failed event of its key, it waits as long as that one.
    if (entry.flight->replay && went_back_before(entry)) return finish(entry, Settled::parked);
    const auto line = lines_.find(entry.line_key());
    if (!entry.flight->replay && line != lines_.end() && line->second.held)
      return retry_later(entry, outcome, {}, false);
  }
  if (!entry.has_come_back) {
    entry.has_come_back = true;
    entry.came_back_at = ports_.clock.now();
    entry.confirmations = policy_.confirmations();
  }
  const std::uint32_t before = entry.attempts;
  const Judgement judged = policy_.failed(entry.event->id, entry.sick_key(), outcome.fate,
                                          entry.attempts, ports_.clock.now(), random_);
  entry.attempts = judged.attempts;
  if (judged.parks) return park(entry, ParkState::parked, {}, outcome.reason);
  retry_later(entry, outcome, judged.pause, judged.attempts > before);
}

void Relay::deliver(Entry& entry, const Outcome& outcome) {
  const bool duplicate = outcome.fate == Fate::duplicate;
  ports_.metrics.confirmed.fetch_add(1, std::memory_order_relaxed);
  if (duplicate) ports_.metrics.duplicates.fetch_add(1, std::memory_order_relaxed);
  if (duplicate || outcome.untried) {
    policy_.answered(entry.event->id);
  } else {
    policy_.confirmed(entry.event->id, entry.sick_key());
  }
  commit_to_confirm_.observe(now_wall_ - entry.event->created_at);
  receive_to_confirm_.observe(collected_at_ - entry.flight->received_at);
  if (entry.flight->replay) {
    ports_.metrics.replayed.fetch_add(1, std::memory_order_relaxed);
    entry.flight->delivered.push_back(entry.event->id);
  }
  entry.place = outcome.place;
  finish(entry, Settled::delivered);
  if (!lines_.empty()) leave_line(entry.line_key());
}

void Relay::retry_later(Entry& entry, const Outcome& outcome, Duration delay, bool counts) {
  if (entry.flight->replay) return park(entry, ParkState::waiting, delay, outcome.reason);
  if (is_blocked(*entry.event)) {
    // Somebody else parked events of its key meanwhile, so later ones may still be ready.
    park_behind(entry);
    return park_line(entry);
  }
  entry.reason = outcome.reason;
  const std::uint64_t key = entry.line_key();
  join_line(key, entry);
  hold_line(key, delay, counts);
}

void Relay::finish(Entry& entry, Settled fate) {
  if (entry.finished) return;
  entry.finished = true;
  entry.fate = fate;
  --entry.flight->unresolved;
}

}  // namespace dovetail
