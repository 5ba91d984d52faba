// Parking: which events go there, which come back, and which keys are blocked.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "core/check.h"
#include "core/mutant.h"
#include "core/relay/relay.h"
#include "core/relay/relay_state.h"

namespace dovetail {

namespace {

std::string describe(const Event& event) {
  return event.id.to_string() + " (" + std::string(event.aggregate_type) + " " +
         std::string(event.aggregate_id) + ")";
}

}  // namespace

// Decides that an event goes to parking, with all events of its key that wait here.
void Relay::park(Entry& entry, ParkState state, Duration delay, std::string reason) {
  if (reason.empty()) reason = "the sink gave no reason";
  if (state == ParkState::parked) {
    note(RelayNotice::Kind::parked, describe(*entry.event) + ": " + reason);
  }
  const bool forgets = state == ParkState::waiting && DOVETAIL_MUTANT(asides_lose_attempts);
  park_requests_.push_back(
      ParkRequest{entry.event, state, forgets ? 0 : entry.attempts, delay, std::move(reason)});
  park_entries_.push_back(&entry);
  entry.fate = Settled::parked;
  if (DOVETAIL_MUTANT(settle_before_park)) finish(entry, Settled::parked);
  block_key(entry);
  park_line(entry);
}

// A defective event is not sent. Like every other event, it is parked only when the earlier ones of
// its key are safe.
void Relay::park_defects() {
  while (!ready_.empty() && !ready_.front()->event->defect.empty()) {
    Entry& entry = *ready_.front();
    ready_.pop_front();
    note(RelayNotice::Kind::parked,
         describe(*entry.event) + ": " + std::string(entry.event->defect));
    block_key(entry);
    park_behind(entry);
    park_line(entry);
  }
}

void Relay::block_key(const Entry& entry) {
  if (!entry.event->has_key() || DOVETAIL_MUTANT(no_key_block_after_refusal)) return;
  blocked_[order_key(*entry.event)] = submissions_made_;
  blocked_keys_gauge_.set(blocked_.size());
}

// All events that wait here behind a parked event follow it.
void Relay::park_line(const Entry& entry) {
  const std::uint64_t key = entry.line_key();
  recall(key);
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  Line& line = found->second;
  if (line.held) held_.erase({line.due, key});
  line.held = false;
  line.in_flight = false;
  // Different keys can share a hash; events of the other key stay.
  Entry* waiting = std::exchange(line.head, nullptr);
  line.tail = nullptr;
  while (waiting != nullptr) {
    Entry* const next = waiting->next;
    if (waiting->flight->replay && waiting->same_key(entry)) {
      finish(*waiting, Settled::parked);
    } else if (waiting->same_key(entry) && is_blocked(*entry.event)) {
      park_behind(*waiting);
    } else {
      join_line(key, *waiting);
    }
    waiting = next;
  }
  advance_line(key);
}

// An event may be parked only when all earlier ones of its key are safe. While one may still be in
// flight, it waits here: after a crash it would be replayed before the events that are read again.
void Relay::park_behind(Entry& entry) {
  const auto blocked = blocked_.find(order_key(*entry.event));
  const bool in_flight = blocked != blocked_.end() && blocked->second > submissions_collected_;
  if (in_flight && !DOVETAIL_MUTANT(parked_past_flight)) {
    behind_flight_.push_back(&entry);
    return;
  }
  park_now(entry);
}

void Relay::park_now(Entry& entry) {
  const std::string_view defect = entry.event->defect;
  park_requests_.push_back(ParkRequest{entry.event,
                                       defect.empty() ? ParkState::waiting : ParkState::parked,
                                       entry.attempts,
                                       {},
                                       std::string(defect.empty() ? kWaitsBehind : defect)});
  park_entries_.push_back(&entry);
}

Status Relay::park_pending() {
  for (Entry* const entry : std::exchange(behind_flight_, {})) park_behind(*entry);
  if (park_requests_.empty()) return {};
  DOVETAIL_TRY(ports_.parking.park(park_requests_));
  ports_.metrics.parked.fetch_add(park_requests_.size(), std::memory_order_relaxed);
  for (Entry* const entry : park_entries_) finish(*entry, Settled::parked);
  park_requests_.clear();
  park_entries_.clear();
  const std::size_t room = is_spilled_ ? options_.window_events_max : 0;
  if (blocked_.size() <= options_.blocked_keys_max + room) return {};
  return reload_blocked_keys();
}

// Parks the head of the line and all events that wait behind it.
Relay::Held::iterator Relay::park_held_line(Held::iterator held) {
  const auto [due, key] = *held;
  const Held::iterator next = held_.erase(held);
  Line& line = lines_.at(key);
  line.held = false;
  Entry* const head = std::exchange(line.head, line.head->next);
  std::string reason = head->reason.empty() ? "it was not confirmed" : head->reason;
  park(*head, ParkState::waiting, std::max(due - ports_.clock.now(), Duration{0}),
       std::move(reason));
  return next;
}

// An event that waits for a retry delays the record of all later events. While others pass, it
// waits in parking instead.
void Relay::move_aside() {
  if (held_.empty() || policy_.is_sick()) return;
  const TimePoint now = ports_.clock.now();
  for (auto it = held_.begin(); it != held_.end();) {
    const Entry& head = *lines_.at(it->second).head;
    const bool others_pass = policy_.confirmations() > head.confirmations;
    const bool is_time = now - head.came_back_at >= options_.aside_after;
    it = others_pass && is_time ? park_held_line(it) : std::next(it);
  }
}

// If the window is full of keys that wait for a retry, one of them moves to parking. In an outage
// this happens seldom, so that parking does not fill with good events. It must happen, because the
// window may contain only events that fail.
void Relay::park_held_lines() {
  if (window_has_room() || !sink_open_ || !submitted_.empty()) return;
  if (policy_.is_sick()) return make_room_in_outage();
  if (!held_.empty() && ready_.empty()) park_held_line(std::prev(held_.end()));
}

void Relay::make_room_in_outage() {
  const TimePoint now = ports_.clock.now();
  if (now < make_room_at_) return;
  std::set<std::uint64_t> keys;
  Entry* first = nullptr;
  for (Entry* const entry : ready_) {
    if (entry->flight->replay || !keys.insert(entry->line_key()).second) continue;
    if (!entry->has_come_back) return;  // not tried yet
    if (first == nullptr) first = entry;
  }
  if (first == nullptr && held_.empty()) return;
  make_room_at_ = now + options_.connect_retry.cap;
  if (first == nullptr) {
    park_held_line(std::prev(held_.end()));
    return;
  }
  std::erase(ready_, first);
  park(*first, ParkState::waiting, {}, first->reason);
}

// At a stop: parks unfinished events that precede a finished one in the source, so that the
// finished one is settled and not sent again. A parked event counts as finished, too, because it
// may have been delivered from parking. Batches are settled as a whole.
Status Relay::park_before_finished() {
  if (DOVETAIL_MUTANT(confirmed_resent_after_stop)) return {};
  std::size_t flights = flights_.size();
  const auto is_finished = [](const Entry& entry) {
    return entry.finished && entry.fate != Settled::skipped;
  };
  while (flights > 0) {
    const std::vector<Entry>& entries = flights_[flights - 1]->entries;
    if (std::any_of(entries.begin(), entries.end(), is_finished)) break;
    --flights;
  }
  const TimePoint now = ports_.clock.now();
  for (std::size_t i = 0; i < flights; ++i) {
    for (Entry& entry : flights_[i]->entries) {
      if (entry.finished) continue;
      const std::string_view defect = entry.event->defect;
      const auto line = lines_.find(entry.line_key());
      const bool is_held = line != lines_.end() && line->second.held;
      const Duration delay = is_held ? std::max(line->second.due - now, Duration{0}) : Duration{0};
      std::string reason = !defect.empty()        ? std::string(defect)
                           : entry.reason.empty() ? "the relay stopped before it was confirmed"
                                                  : entry.reason;
      park_requests_.push_back(ParkRequest{entry.event,
                                           defect.empty() ? ParkState::waiting : ParkState::parked,
                                           entry.attempts, delay, std::move(reason)});
      park_entries_.push_back(&entry);
    }
  }
  behind_flight_.clear();
  DOVETAIL_TRY(park_pending());
  if (!replay_ || replay_->delivered.empty()) return {};
  return ports_.parking.delivered(replay_->delivered);
}

Status Relay::take_replays() {
  const TimePoint now = ports_.clock.now();
  if (replay_ || now < replay_poll_at_) return {};
  // Without blocked keys, only an event without a key can be due.
  replay_poll_at_ = now + (blocked_.empty() ? 4 : 1) * options_.replay_poll;
  std::unique_ptr<Flight> flight = take_flight(true);
  Limits limits;
  limits.events_max = options_.batch_events_max;
  limits.bytes_max = options_.batch_bytes_max;
  limits.pause_max = std::max(options_.key_retry.cap, options_.connect_retry.cap);
  DOVETAIL_TRY(ports_.parking.take_due(flight->batch, flight->attempts, limits));
  if (flight->batch.empty()) {
    spare_flights_.push_back(std::move(flight));
    return blocked_.empty() ? Status{} : reload_blocked_keys();
  }
  DOVETAIL_CHECK(flight->attempts.size() == flight->batch.size());
  replay_ = std::move(flight);
  replay_->received_at = now;
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

// A key that is free in the store stays blocked here while one of its events may be in flight.
Status Relay::reload_blocked_keys() {
  const TimePoint now = ports_.clock.now();
  std::vector<OrderKey> keys;
  if (!is_spilled_ || now >= recount_at_) {
    DOVETAIL_TRY(ports_.parking.blocked_keys(keys, options_.blocked_keys_max + 1));
    is_spilled_ = keys.size() > options_.blocked_keys_max;
    recount_at_ = now + std::chrono::seconds(30);
  }
  if (is_spilled_) {
    keys.clear();
    DOVETAIL_TRY(ports_.parking.blocked_among(keys_in_window(), keys));
  }
  std::map<OrderKey, std::uint64_t> stored;
  for (OrderKey& key : keys) stored.emplace(std::move(key), 0);
  for (const auto& [key, after] : blocked_) {
    const auto found = stored.find(key);
    if (found != stored.end()) {
      found->second = after;
    } else if (after > submissions_collected_) {
      stored.emplace(key, after);
    } else if (!is_spilled_) {
      note(RelayNotice::Kind::key_released, key.first + " " + key.second + " is unblocked");
    }
  }
  blocked_ = std::move(stored);
  blocked_keys_gauge_.set(is_spilled_ ? std::max(blocked_.size(), options_.blocked_keys_max + 1)
                                      : blocked_.size());
  return {};
}

std::vector<OrderKey> Relay::keys_in_window() const {
  std::set<OrderKey> keys;
  for (const auto& flight : flights_)
    for (const Entry& entry : flight->entries)
      if (!entry.finished && entry.event->has_key()) keys.insert(order_key(*entry.event));
  return {keys.begin(), keys.end()};
}

// Finds the blocked keys of a batch if memory does not have all blocked keys.
Status Relay::learn_blocked_keys(const Flight& flight) {
  if (!is_spilled_ || DOVETAIL_MUTANT(blocked_keys_not_asked)) return {};
  std::set<OrderKey> keys;
  for (const Event& event : flight.batch.events())
    if (event.has_key()) keys.insert(order_key(event));
  const std::vector<OrderKey> asked(keys.begin(), keys.end());
  std::vector<OrderKey> found;
  DOVETAIL_TRY(ports_.parking.blocked_among(asked, found));
  for (OrderKey& key : found) blocked_.emplace(std::move(key), 0);
  return {};
}

}  // namespace dovetail
