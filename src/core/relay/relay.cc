// A session: lease, reading, settling. relay_sending.cc talks to the sink, relay_events.cc tracks
// the events of each key, relay_parking.cc does the parking.
#include "core/relay/relay.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/life/receipt.h"
#include "core/mutant.h"
#include "core/relay/relay_state.h"

namespace dovetail {

using Kind = RelayNotice::Kind;

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::standby:
      return "standby";
    case Kind::held:
      return "held";
    case Kind::started:
      return "started";
    case Kind::sink_lost:
      return "sink_lost";
    case Kind::sink_sick:
      return "sink_sick";
    case Kind::sink_restored:
      return "sink_restored";
    case Kind::session_lost:
      return "session_lost";
    case Kind::parked:
      return "parked";
    case Kind::key_released:
      return "key_released";
    case Kind::stalled:
      return "stalled";
    case Kind::source_changed:
      return "source_changed";
    case Kind::halted:
      return "halted";
    case Kind::reminder:
      return "reminder";
    case Kind::drained:
      return "drained";
  }
  return "unknown";
}

std::string_view to_string(RelayState::Kind kind) {
  switch (kind) {
    case RelayState::Kind::standby:
      return "standby";
    case RelayState::Kind::held:
      return "held";
    case RelayState::Kind::delivering:
      return "delivering";
    case RelayState::Kind::backing_off:
      return "backing_off";
    case RelayState::Kind::halted:
      return "halted";
  }
  return "unknown";
}

namespace {

constexpr Duration kRemindEvery = std::chrono::minutes(1);
// After a session has run this long without an error, earlier failures no longer count.
constexpr Duration kLasts = std::chrono::seconds(2);
constexpr Duration kLastsAfterHalt = std::chrono::seconds(30);

FailurePolicyOptions policy_of(const RelayOptions& options) {
  FailurePolicyOptions policy;
  policy.attempts_max = options.attempts_max;
  policy.key_retry = options.key_retry;
  policy.sink_retry = options.connect_retry;
  policy.busy_for = options.busy_for;
  policy.once_is_enough = options.gives_up;
  return policy;
}

std::string in_seconds(Duration duration) {
  const auto tenths = duration.count() / 100'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

Relay::Relay(RelayPorts ports, RelayOptions options)
    : ports_(std::move(ports)),
      options_(options),
      random_(options.seed),
      policy_(policy_of(options)),
      pace_(options.batch_events_max, options.batch_time_max) {}

Relay::~Relay() = default;

static_assert(static_cast<std::size_t>(RelayState::Kind::halted) + 1 == RelayMetrics::kStates);

void Relay::note(Kind kind, std::string text) { ports_.notify(RelayNotice{kind, std::move(text)}); }

// Pauses grow, so a short one adds nothing to the previous report.
void Relay::report(RelayState::Kind kind, std::string_view error, Duration next_try) {
  const TimePoint now = ports_.clock.now();
  state_gauge_.enter(static_cast<std::size_t>(kind));
  const bool is_change = !was_reported_ || kind != reported_.kind;
  if (is_change) state_since_ = reminded_at_ = now;
  const bool waits = kind == RelayState::Kind::backing_off || kind == RelayState::Kind::halted;
  if (waits && now - reminded_at_ >= kRemindEvery) {
    reminded_at_ = now;
    std::string shown(to_string(kind));
    std::replace(shown.begin(), shown.end(), '_', ' ');
    note(Kind::reminder, shown + " since " + in_seconds(now - state_since_) + ", next try in " +
                             in_seconds(next_try) + ": " + std::string(error));
  }
  if (!is_change && error == reported_.last_error && next_try < std::chrono::seconds(1)) return;
  was_reported_ = true;
  reported_ = RelayState{kind, now - state_since_, std::string(error), next_try};
  ports_.report(reported_);
}

Status Relay::run(std::stop_token stop) {
  const Status ended = run_sessions(stop);
  // A session that ended with an error may still hold the lease. Release it, so that the next relay
  // need not wait until it expires.
  if (ports_.clock.now() < ports_.lease.deadline()) (void)ports_.lease.release();
  // If that fails, the next session is more careful; nothing else is lost.
  (void)ports_.sink.close();
  return ended;
}

Status Relay::run_sessions(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Status ended = session(stop);
    forget();
    if (!ended && !survive(ended.error(), stop)) return ended;
  }
  return {};
}

// Waits after an error. True: start over.
bool Relay::survive(const Error& error, std::stop_token stop) {
  const bool halts = error.code == Errc::corrupt || error.code == Errc::rejected;
  if ((halts && options_.gives_up) || has_given_up_) {
    note(Kind::halted, error.text);
    report(RelayState::Kind::halted, error.text, {});
    return false;
  }
  // The lease expired, or a write was refused because another relay owns the lane.
  if (error.code == Errc::stopped) ports_.metrics.fenced.fetch_add(1, std::memory_order_relaxed);
  if (stop.stop_requested()) return true;
  // The other relay's lease may end at any time, so a standby asks often.
  const bool stands_by = standing_by_ && !halts;
  const RetryPolicy policy =
      stands_by ? RetryPolicy{options_.idle_wait, options_.idle_wait} : options_.connect_retry;
  const Duration pause = retry_delay(policy, session_failures_, random_);
  if (!stands_by) {
    ports_.metrics.session_errors.fetch_add(1, std::memory_order_relaxed);
    if (session_failures_ == 0 || halts != was_halted_)
      note(halts ? Kind::halted : Kind::session_lost,
           halts ? error.text + "; the relay retries at least every " +
                       in_seconds(options_.connect_retry.cap)
                 : error.text);
    was_halted_ = halts;
    ++session_failures_;
  }
  report(halts ? RelayState::Kind::halted
         : stands_by
             ? stops(ports_.lease.hold()) ? RelayState::Kind::held : RelayState::Kind::standby
             : RelayState::Kind::backing_off,
         error.text, pause);
  ports_.clock.sleep(pause, stop);
  return true;
}

Status Relay::session(std::stop_token stop) {
  const Status acquired = ports_.lease.acquire();
  if (!acquired) {
    const bool waits = acquired.error().code == Errc::unavailable;
    const Kind kind = stops(ports_.lease.hold()) ? Kind::held : Kind::standby;
    if (waits && !standing_by_) note(kind, acquired.error().text);
    standing_by_ = waits;
    return acquired;
  }
  standing_by_ = false;
  ports_.metrics.leases_taken.fetch_add(1, std::memory_order_relaxed);
  timed_at_ = ports_.clock.now();
  longest_ = Duration{0};
  DOVETAIL_TRY(ports_.source.open());
  DOVETAIL_TRY(wait_for_source(stop));
  took_time("opening the source");
  DOVETAIL_TRY(ports_.parking.open());
  DOVETAIL_TRY(reload_blocked_keys());
  took_time("reading parked events");
  session_since_ = ports_.clock.now();
  note(Kind::started, "started");
  report_delivery();
  while (!stop.stop_requested()) {
    const Result<bool> over = is_over();
    if (!over) return fail(over.error());
    if (*over) break;
    DOVETAIL_TRY(step(stop));
  }
  return drain(!stop.stop_requested() && ports_.lease.hold() == Hold::draining);
}

// Whether an operator's order ends the session. A relay that drains ends when nothing is in flight
// and nothing in parking waits for its next try.
Result<bool> Relay::is_over() {
  const Hold hold = ports_.lease.hold();
  reads_ = hold != Hold::draining;
  if (reads_) return stops(hold);
  const bool is_empty = flights_.empty() && !replay_ && park_requests_.empty();
  const TimePoint now = ports_.clock.now();
  if (!is_empty || now < ask_if_drained_at_) return false;
  ask_if_drained_at_ = now + options_.replay_poll;
  Batch waiting;
  std::vector<std::uint32_t> attempts;
  Limits any;
  any.events_max = 1;
  any.pause_max = Duration{0};
  DOVETAIL_TRY(ports_.parking.take_due(waiting, attempts, any));
  return waiting.empty();
}

// After a session that lasted or recorded progress, the next error starts with a short pause.
void Relay::recover_session() {
  session_failures_ = 0;
  if (sink_failures_ == 0 && policy_.failed_in_a_row() < kFailedInARow) report_delivery();
}

// Until this session gets further than the failed one, its deliveries do not last.
void Relay::report_delivery() {
  if (session_failures_ == 0 && !policy_.is_sick()) report(RelayState::Kind::delivering, {}, {});
}

// While a slow source opens, the lease is renewed.
Status Relay::wait_for_source(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Result<bool> opened = ports_.source.opened(std::chrono::milliseconds(20));
    if (!opened) return fail(opened.error());
    if (*opened) break;
    DOVETAIL_TRY(hold_lease());
  }
  return {};
}

Status Relay::step(std::stop_token stop) {
  DOVETAIL_TRY(hold_lease());
  // An order comes with a renewal. is_over() obeys it before anything else is read or sent.
  const Hold hold = ports_.lease.hold();
  const bool is_new = stops(hold) || (hold == Hold::draining && reads_);
  if (is_new && !DOVETAIL_MUTANT(hold_obeyed_late)) return {};
  const Duration lasting = was_halted_ ? kLastsAfterHalt : kLasts;
  if (session_failures_ > 0 && ports_.clock.now() - session_since_ >= lasting) recover_session();
  DOVETAIL_TRY(ports_.source.keep_alive());
  DOVETAIL_TRY(take_replays());
  took_time("reading parked events");
  DOVETAIL_TRY(read_source(stop));
  took_time("reading the source");
  release_due_lines();
  DOVETAIL_TRY(submit_ready());
  DOVETAIL_TRY(collect());
  took_time("calling the sink");
  move_aside();
  park_held_lines();
  if (DOVETAIL_MUTANT(settle_before_park)) DOVETAIL_TRY(settle());
  DOVETAIL_TRY(park_pending());
  DOVETAIL_TRY(settle());
  took_time("recording settled and parked events");
  rest(stop);
  took_time("idling");
  return {};
}

// Takes no more work and waits for the fate of events in flight, so that no confirmed event is sent
// again. `is_last`: nothing is in flight, and an operator waits for that.
Status Relay::drain(bool is_last) {
  const TimePoint give_up_at = ports_.clock.now() + options_.drain_timeout;
  while (sink_open_ && !submitted_.empty() && ports_.clock.now() < give_up_at) {
    DOVETAIL_TRY(hold_lease());
    bool collected = false;
    DOVETAIL_TRY(collect_one(wait_limit(std::chrono::milliseconds(50)), collected));
    took_time("calling the sink");
    DOVETAIL_TRY(park_pending());
    DOVETAIL_TRY(settle());
    took_time("recording settled and parked events");
  }
  DOVETAIL_TRY(park_pending());
  DOVETAIL_TRY(park_before_finished());
  DOVETAIL_TRY(settle());
  DOVETAIL_TRY(ports_.source.flush());
  // Another relay may start as soon as the lease is free.
  if (!submitted_.empty()) ports_.sink.permit(TimePoint{});
  DOVETAIL_TRY(is_last ? ports_.lease.release_drained() : ports_.lease.release());
  note(Kind::drained,
       submitted_.empty()
           ? "stopped cleanly"
           : "stopped before all events in flight were confirmed; they will be sent again");
  return {};
}

// The events in memory belong to this session; the next one reads them again.
void Relay::forget() {
  if (!submitted_.empty()) ports_.sink.permit(TimePoint{});
  for (auto& flight : flights_) limbo_.push_back(std::move(flight));
  flights_.clear();
  if (replay_) limbo_.push_back(std::move(replay_));
  ready_.clear();
  submitted_.clear();
  lines_.clear();
  held_.clear();
  blocked_.clear();
  is_spilled_ = false;
  park_requests_.clear();
  park_entries_.clear();
  behind_flight_.clear();
  submissions_collected_ = submissions_made_;
  window_events_ = 0;
  window_bytes_ = 0;
  unwritten_events_ = 0;
  sink_open_ = false;
  sink_opening_ = false;
  source_had_more_ = false;
  sink_retry_at_ = {};
  replay_poll_at_ = {};
}

// Checked before each submit and each collect, because some sinks work only inside collect().
Status Relay::check_deadline() const {
  if (ports_.clock.now() < ports_.lease.deadline() || DOVETAIL_MUTANT(deadline_ignored)) return {};
  using std::chrono::milliseconds;
  return fail(
      Errc::stopped,
      "the lease ran out before it was renewed; the slowest step since the last renewal was " +
          std::string(longest_what_) + ", " +
          std::to_string(std::chrono::duration_cast<milliseconds>(longest_).count()) +
          " ms; check what that step waits for, and whether this process was paused");
}

void Relay::took_time(std::string_view what) {
  const TimePoint now = ports_.clock.now();
  const Duration took = now - std::exchange(timed_at_, now);
  if (took <= longest_) return;
  longest_ = took;
  longest_what_ = what;
}

Status Relay::hold_lease() {
  DOVETAIL_TRY(check_deadline());
  const TimePoint now = ports_.clock.now();
  if (now >= ports_.lease.renew_at() && now >= renew_retry_at_) {
    const Status renewed = ports_.lease.renew();
    if (!renewed && renewed.error().code != Errc::unavailable) return renewed;
    // Otherwise retry until the deadline.
    if (!renewed) renew_retry_at_ = now + retry_delay(options_.connect_retry, 0, random_);
    if (renewed) longest_ = Duration{0};
    took_time("renewing the lease");
  }
  if (!submitted_.empty()) ports_.sink.permit(ports_.lease.deadline());
  return {};
}

// Room for more events. Settled events that are not recorded count, too, because they are read
// again after a crash.
std::size_t Relay::window_room() const {
  const std::size_t taken = window_events_ + unwritten_events_;
  return options_.window_events_max - std::min(taken, options_.window_events_max);
}

bool Relay::window_has_room() const {
  return window_room() > 0 && window_bytes_ < options_.window_bytes_max;
}

// At most `limit`, and not beyond the next deadline.
Duration Relay::wait_limit(Duration limit) const {
  const TimePoint now = ports_.clock.now();
  TimePoint until = now + limit;
  until = std::min(
      {until, std::max(ports_.lease.renew_at(), renew_retry_at_), ports_.lease.deadline()});
  if (!replay_) until = std::min(until, replay_poll_at_);
  if (unwritten_events_ > 0) until = std::min(until, write_progress_at_);
  if (!sink_open_ && !sink_opening_) until = std::min(until, sink_retry_at_);
  // A line that is already due waits for a confirmation, which ends any wait.
  if (!held_.empty() && (held_.begin()->first > now || submitted_.empty())) {
    until = std::min(until, held_.begin()->first);
  }
  if (policy_.is_sick()) {
    if (!ready_.empty() && policy_.probe_at() > now) until = std::min(until, policy_.probe_at());
  } else if (!held_.empty()) {
    until = std::min(until, now + options_.aside_after);
  }
  return std::max(until - now, Duration{0});
}

Status Relay::read_source(std::stop_token stop) {
  source_had_more_ = false;
  if (!window_has_room() || !reads_) return {};
  const bool idle = ready_.empty() && submitted_.empty();
  std::unique_ptr<Flight> flight = take_flight(false);
  Limits limits;
  limits.events_max = std::min(batch_limit(), window_room());
  limits.bytes_max = std::min(options_.batch_bytes_max, options_.window_bytes_max - window_bytes_);
  limits.wait_max = idle ? wait_limit(options_.idle_wait) : Duration{0};
  DOVETAIL_TRY(ports_.source.read(flight->batch, limits, stop));
  if (flight->batch.empty()) {
    if (idle) ports_.metrics.progress_at_us = ports_.clock.now().time_since_epoch().count();
    spare_flights_.push_back(std::move(flight));
    return {};
  }
  source_had_more_ = true;
  flight->received_at = ports_.clock.now();
  DOVETAIL_TRY(learn_blocked_keys(*flight));
  admit(*flight);
  window_events_ += flight->entries.size();
  window_bytes_ += flight->batch.bytes();
  ports_.metrics.read.fetch_add(flight->entries.size(), std::memory_order_relaxed);
  window_events_gauge_.set(window_events_);
  window_bytes_gauge_.set(window_bytes_);
  flights_.push_back(std::move(flight));
  return {};
}

Status Relay::settle() {
  bool settled = false;
  Receipt* const receipt = ports_.source.receipt();
  while (!flights_.empty() && flights_.front()->unresolved == 0) {
    std::unique_ptr<Flight> flight = std::move(flights_.front());
    flights_.pop_front();
    window_events_ -= flight->entries.size();
    window_bytes_ -= flight->batch.bytes();
    fates_.clear();
    for (const Entry& entry : flight->entries) {
      fates_.push_back(entry.fate);
      if (receipt != nullptr && entry.fate == Settled::delivered)
        receipt->add(*entry.event, entry.place);
    }
    DOVETAIL_TRY(ports_.source.settle(flight->batch, fates_));
    ports_.metrics.settled.fetch_add(flight->entries.size(), std::memory_order_relaxed);
    if (unwritten_events_ == 0)
      write_progress_at_ = ports_.clock.now() + options_.progress_interval;
    unwritten_events_ += flight->entries.size();
    settled = true;
    spare_flights_.push_back(std::move(flight));
  }
  if (settled) {
    window_events_gauge_.set(window_events_);
    window_bytes_gauge_.set(window_bytes_);
  }
  DOVETAIL_TRY(write_progress());
  if (replay_ && replay_->unresolved == 0) return finish_replay();
  return {};
}

Status Relay::write_progress() {
  if (unwritten_events_ == 0) return {};
  if (window_has_room() && ports_.clock.now() < write_progress_at_) return {};
  DOVETAIL_TRY(ports_.source.flush());
  unwritten_events_ = 0;
  if (session_failures_ > 0) recover_session();
  return {};
}

// Sleeps if neither reading nor collecting has waited.
void Relay::rest(std::stop_token stop) {
  const bool can_collect = sink_open_ && !submitted_.empty();
  const bool may_send = !policy_.is_sick() || ports_.clock.now() >= policy_.probe_at();
  const bool can_send = sink_open_ && !ready_.empty() && may_send;
  // Reading or collecting has waited.
  if (can_collect || can_send || sink_opening_) return;
  const bool read_waits = reads_ && window_has_room() && ready_.empty() && submitted_.empty();
  if (read_waits) return;
  ports_.clock.sleep(wait_limit(options_.idle_wait), stop);
}

}  // namespace dovetail
