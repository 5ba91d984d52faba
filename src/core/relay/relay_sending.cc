// The relay and its sink: opening, submitting, probes of a sick sink, collecting, and a lost
// connection.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/mutant.h"
#include "core/relay/relay.h"
#include "core/relay/relay_state.h"

namespace dovetail {

using Kind = RelayNotice::Kind;

namespace {

constexpr Duration kOpeningIsLong = std::chrono::seconds(15);  // then it is reported

}  // namespace

Status Relay::open_sink() {
  const TimePoint now = ports_.clock.now();
  if (!sink_opening_ && now < sink_retry_at_) return {};
  const Result<bool> opened = wait_for_sink();
  if (opened && !*opened) {
    if (opening_is_long_ || now < opening_since_ + kOpeningIsLong) return {};
    opening_is_long_ = true;
    note(Kind::stalled,
         "the sink is not open yet and may still be finishing earlier work; check for a handler "
         "or a receiver that hangs");
    return {};
  }
  sink_opening_ = false;
  if (!opened) {
    if (opened.error().code == Errc::corrupt || opened.error().code == Errc::stopped)
      return fail(opened.error());
    lose_sink(opened.error());
    return {};
  }
  sink_open_ = true;
  limbo_.clear();
  // A sink that opens may still fail for every event.
  if (ready_.empty()) note_sink_works();
  if (sink_failures_ == 0 || ready_.empty()) report_delivery();
  return {};
}

void Relay::note_sink_works() {
  sink_lost_gauge_.set(0);
  if (!std::exchange(sink_missed_, false)) return;
  note(Kind::sink_restored, "the sink is connected again");
}

// Whether the sink is open. Does not wait if there is something to read meanwhile.
Result<bool> Relay::wait_for_sink() {
  if (!sink_opening_) {
    const Status asked = ports_.sink.open();
    if (!asked) return fail(asked.error());
    sink_opening_ = true;
    opening_is_long_ = false;
    opening_since_ = ports_.clock.now();
  }
  if (DOVETAIL_MUTANT(open_waited_for)) return ports_.sink.opened(std::chrono::hours(1));
  const bool reads = window_has_room() && (source_had_more_ || ready_.empty());
  return ports_.sink.opened(reads ? Duration{0} : wait_limit(std::chrono::milliseconds(20)));
}

std::size_t Relay::batch_limit() const {
  if (!ports_.sink.blocks() || DOVETAIL_MUTANT(slow_batches_not_cut))
    return options_.batch_events_max;
  return std::min(options_.batch_events_max, pace_.limit());
}

// Since when the sink works on the oldest submission; before that, it may have worked on an earlier
// one.
TimePoint Relay::waits_since() const {
  return std::max(submitted_.front().submitted_at, collected_at_);
}

Status Relay::submit_ready() {
  if (!sink_open_) DOVETAIL_TRY(open_sink());
  if (policy_.is_sick()) return submit_probe();
  while (sink_open_ && !ready_.empty() && submitted_.size() < options_.batches_in_flight_max) {
    park_defects();
    if (!ready_.empty()) DOVETAIL_TRY(submit_one(options_.batch_events_max));
  }
  if (DOVETAIL_MUTANT(settle_before_confirm)) {
    for (const auto& flight : flights_) {
      const std::vector<Settled> fates(flight->entries.size(), Settled::delivered);
      DOVETAIL_TRY(ports_.source.settle(flight->batch, fates));
    }
    DOVETAIL_TRY(ports_.source.flush());
  }
  return {};
}

// Only one probe at a time.
Status Relay::submit_probe() {
  if (!sink_open_ || !submitted_.empty() || ports_.clock.now() < policy_.probe_at()) return {};
  park_defects();
  if (ready_.empty()) return {};
  choose_probe();
  policy_.probe_sent();
  return submit_one(policy_.probe_keys());
}

// Puts the first events of different keys to the front. Failed ones go to the end, so every key
// gets its turn. Events that failed before and come from parking get only one place: a sink that
// looks sick may just have many poison events.
void Relay::choose_probe() {
  std::set<std::uint64_t> keys;
  std::vector<Entry*> fresh;
  std::vector<Entry*> replayed;
  for (Entry* const entry : ready_) {
    if (!entry->event->defect.empty()) break;
    if (!keys.insert(entry->line_key()).second) continue;
    (entry->flight->replay ? replayed : fresh).push_back(entry);
  }
  std::vector<Entry*> chosen;
  const auto take = [&](const std::vector<Entry*>& from, std::size_t until) {
    for (Entry* const entry : from)
      if (chosen.size() < until && std::find(chosen.begin(), chosen.end(), entry) == chosen.end())
        chosen.push_back(entry);
  };
  take(fresh, policy_.probe_keys() - (replayed.empty() ? 0 : 1));
  take(replayed, policy_.probe_keys());
  take(fresh, policy_.probe_keys());
  std::erase_if(ready_, [&](Entry* entry) {
    return std::find(chosen.begin(), chosen.end(), entry) != chosen.end();
  });
  ready_.insert(ready_.begin(), chosen.begin(), chosen.end());
}

Status Relay::submit_one(std::size_t events_max) {
  DOVETAIL_TRY(check_deadline());
  Submission submission;
  if (!spare_submissions_.empty()) {
    submission = std::move(spare_submissions_.back());
    spare_submissions_.pop_back();
  }
  submission.entries.clear();
  submission.events.clear();
  std::size_t bytes = 0;
  const std::size_t limit = std::min(events_max, batch_limit());
  while (!ready_.empty() && submission.entries.size() < limit) {
    Entry* const entry = ready_.front();
    if (!entry->event->defect.empty()) break;  // parked while an earlier event is in flight
    bytes += entry->event->payload.size();
    if (bytes > options_.batch_bytes_max && !submission.entries.empty()) break;
    submission.entries.push_back(entry);
    submission.events.push_back(entry->event);
    ready_.pop_front();
  }
  submission.number = ++submissions_made_;
  submission.submitted_at = ports_.clock.now();
  ports_.metrics.submitted.fetch_add(submission.entries.size(), std::memory_order_relaxed);
  submitted_.push_back(std::move(submission));
  ports_.sink.permit(ports_.lease.deadline());
  const Status submitted = ports_.sink.submit(submitted_.back().events);
  if (!submitted) lose_sink(submitted.error());
  return {};
}

Status Relay::collect() {
  if (!sink_open_ || submitted_.empty()) return {};
  // While there is more to read and send, does not wait for outcomes.
  const bool could_read = source_had_more_ && window_has_room();
  const bool could_send = submitted_.size() < options_.batches_in_flight_max;
  Duration timeout{0};
  if (!(could_read && could_send)) {
    timeout = wait_limit(window_has_room() ? std::chrono::milliseconds(1)
                                           : std::chrono::milliseconds(20));
  }
  bool collected = true;
  for (std::size_t i = submitted_.size(); i > 0 && collected && sink_open_; --i) {
    DOVETAIL_TRY(collect_one(timeout, collected));
    timeout = Duration{0};
  }
  return {};
}

Status Relay::collect_one(Duration timeout, bool& collected) {
  collected = false;
  DOVETAIL_TRY(check_deadline());
  outcomes_.assign(submitted_.front().entries.size(), Outcome{});
  const Result<bool> known = ports_.sink.collect(outcomes_, timeout);
  if (!known) {
    if (known.error().code == Errc::corrupt || known.error().code == Errc::stopped) {
      return fail(known.error());
    }
    lose_sink(known.error());
    return {};
  }
  const TimePoint now = ports_.clock.now();
  if (!*known) {
    if (now - waits_since() < options_.confirm_timeout) return {};
    pace_.took(submitted_.front().entries.size(), now - waits_since());
    ports_.metrics.stalls.fetch_add(1, std::memory_order_relaxed);
    note(Kind::stalled, "the sink did not confirm in time; the relay reconnects");
    lose_sink(Error{Errc::in_doubt, "no confirmation within the limit"});
    return {};
  }
  collected = true;
  pace_.took(submitted_.front().entries.size(), now - waits_since());
  collected_at_ = now;
  Submission submission = std::move(submitted_.front());
  submitted_.pop_front();
  submissions_collected_ = submission.number;
  now_wall_ = ports_.clock.wall();
  for (std::size_t i = 0; i < submission.entries.size(); ++i) {
    resolve(*submission.entries[i], outcomes_[i]);
  }
  commit_to_confirm_.flush();
  receive_to_confirm_.flush();
  sink_failures_ = 0;
  note_sink_works();
  ports_.metrics.progress_at_us = now.time_since_epoch().count();
  spare_submissions_.push_back(std::move(submission));
  const bool delivered = std::any_of(outcomes_.begin(), outcomes_.end(), [](const Outcome& one) {
    return one.fate == Fate::confirmed || one.fate == Fate::duplicate;
  });
  return judge_sink(now, delivered);
}

// After a batch: judges the whole sink by its failures.
Status Relay::judge_sink(TimePoint now, bool delivered) {
  const bool was_sick = policy_.is_sick();
  const bool changed = policy_.end_batch(now, random_);
  const bool is_sick = policy_.is_sick();
  const std::uint32_t failed = policy_.failed_in_a_row();
  if (is_sick) sink_lost_gauge_.set(1);
  if (is_sick && !was_sick) {
    make_room_at_ = now + options_.connect_retry.cap;
    note(Kind::sink_sick,
         "the sink fails for every key, so the relay sends only probes: " + last_failure_);
  }
  if (was_sick && !is_sick) {
    note(Kind::sink_restored, "the sink confirms again");
    release_uncounted_lines();
  }
  if (is_sick && changed) {
    report(RelayState::Kind::backing_off, last_failure_, policy_.probe_at() - now);
  } else if (!is_sick && failed >= kFailedInARow) {
    const Duration next = held_.empty() ? Duration{0} : held_.begin()->first - now;
    report(RelayState::Kind::backing_off, last_failure_, std::max(next, Duration{0}));
  } else if (!is_sick && failed == 0 && delivered) {
    report_delivery();
  }
  // A single failing event at the end of such a run was parked before.
  if (!options_.gives_up || failed < options_.attempts_max + kFailedInARow) return {};
  has_given_up_ = true;
  return fail(Errc::unavailable, "nothing was confirmed in the last " + std::to_string(failed) +
                                     " attempts; check the receiver: " + last_failure_);
}

// Drops the connection. Its events in flight are sent again first, in order.
void Relay::lose_sink(const Error& error) {
  sink_open_ = false;
  policy_.probe_lost();
  sink_opening_ = false;
  ports_.sink.permit(TimePoint{});
  ports_.metrics.sink_errors.fetch_add(1, std::memory_order_relaxed);
  sink_lost_gauge_.set(1);
  if (!std::exchange(sink_missed_, true)) note(Kind::sink_lost, error.text);
  const Duration pause = retry_delay(options_.connect_retry, sink_failures_, random_);
  sink_retry_at_ = ports_.clock.now() + pause;
  report(RelayState::Kind::backing_off, error.text, pause);
  ++sink_failures_;

  std::deque<Entry*> back = std::exchange(ready_, {});
  std::deque<Submission> lost = std::exchange(submitted_, {});
  submissions_collected_ = submissions_made_;
  for (auto submission = lost.rbegin(); submission != lost.rend(); ++submission) {
    back.insert(back.begin(), submission->entries.begin(), submission->entries.end());
  }
  // Every event is placed again, even a ready one, because another member of a consumer group may
  // have parked its key meanwhile.
  for (Entry* const entry : back) {
    if (DOVETAIL_MUTANT(unconfirmed_forgotten_on_reopen)) {
      deliver(*entry, Outcome{Fate::confirmed});
      continue;
    }
    const auto line = lines_.find(entry->line_key());
    if (line != lines_.end()) line->second.in_flight = false;
    place(*entry);
  }
}

}  // namespace dovetail
