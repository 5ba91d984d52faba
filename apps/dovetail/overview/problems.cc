#include "overview/problems.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "config/units.h"
#include "overview/cause.h"

namespace dovetail::app {
namespace {

using config::counted;

using enum ProblemKind;

constexpr Duration kClockAheadMax = std::chrono::seconds(10);
constexpr Duration kSilenceMax = std::chrono::seconds(10);  // a relay reports when it starts

std::string waiting_events(const assembly::RelayStatus& relay) {
  if (!knows_pending(relay)) return "Its events wait.";
  const std::uint64_t count = relay.pending == 0 ? relay.waiting : relay.pending;
  return counted(count, "event") + (count == 1 ? " waits." : " wait.");
}

// All problems of one store, one rule after the other.
class Finder {
 public:
  Finder(const Overview& overview, const ProblemLimits& limits, const StoreView& view,
         std::vector<Problem>& problems)
      : overview_(overview), limits_(limits), view_(view), store_(*view.store), out_(problems) {}

  void find();

 private:
  Problem& add(ProblemKind kind, Severity severity, std::string title);
  void find_in_relay(const assembly::RelayStatus& relay);
  void say_what_it_said(const assembly::RelayStatus& relay, const std::string& state);
  void tell_of_owner(const assembly::RelayStatus& relay);
  void tell_of_wal(const assembly::RelayStatus& relay);
  void tell_of_parked(std::uint64_t parked, std::uint64_t waiting);
  void find_unread();
  void tell_of_silence(const assembly::RelayStatus& relay);
  void tell_of_disk();
  void tell_of_clock();

  const Overview& overview_;
  const ProblemLimits& limits_;
  const StoreView& view_;
  const config::StoreConfig& store_;
  std::vector<Problem>& out_;
  // Of the relay in hand.
  const config::RelayConfig* config_ = nullptr;
  std::string name_{};
  bool is_consumer_ = false;
};

Problem& Finder::add(ProblemKind kind, Severity severity, std::string title) {
  Problem& problem = out_.emplace_back();
  problem.kind = kind;
  problem.severity = severity;
  problem.title = std::move(title);
  problem.where = {store_.name, name_, is_consumer_};
  return problem;
}

// "The relay bus-in", "The consumer stock"
std::string named(bool is_consumer, std::string_view name) {
  return (is_consumer ? "The consumer " : "The relay ") + std::string(name);
}

std::string title_of(const Cause& cause, const config::StoreConfig& home, bool is_consumer,
                     const std::string& name) {
  const std::string who = named(is_consumer, name);
  const std::string store = cause.store == nullptr ? home.name : cause.store->name;
  switch (cause.kind) {
    case broker_away:
      return "The broker " + store + " is away";
    case database_away:
      return "The database " + store + " is away";
    case pooler_down:
      return "The pooler before the database " + store + " is down";
    case disk_full:
      return "The disk of the database " + store + " is full";
    case clock_step:
      return "The clock of the database " + store + " was set";
    case missing_topic:
      return "The broker " + store + " does not have what " + name + " needs";
    case wrong_mapping:
      return who + " does not fit its table";
    case lease_lost:
      return who + " lost its lease";
    case handler_failing:
      return "The handlers of the consumer " + name + " fail";
    case relay_halted:
      return who + " is halted";
    default:
      return who + " is backing off";
  }
}

void Finder::find() {
  if (view_.failure) {
    const bool is_unavailable = view_.failure->exit == Exit::unavailable;
    const ProblemKind kind = cause_of_database(view_.failure->text, store_, is_unavailable);
    const Cause cause{kind, &store_};
    Problem& problem =
        add(kind, Severity::error,
            kind == database_unusable ? "The database " + store_.name + " cannot be used"
                                      : title_of(cause, store_, false, ""));
    problem.text = view_.failure->text;
    problem.effect = is_unavailable ? "Its relays wait, and continue by themselves when it is back."
                                    : "Its relays wait until the cause is gone.";
    problem.since = view_.since;
    return;
  }
  if (!view_.status) return;
  tell_of_disk();
  tell_of_clock();
  for (const assembly::RelayStatus& relay : view_.status->relays) find_in_relay(relay);
  find_unread();
  for (const QueueStatus& queue : view_.status->queues) {
    if (queue.parked == 0) continue;
    name_ = queue.consumer;
    is_consumer_ = true;
    tell_of_parked(queue.parked, queue.waiting);
  }
  for (const ConsumerStatus& consumer : view_.status->consumers) {
    if (consumer.trying == 0) continue;
    name_ = consumer.name;
    is_consumer_ = true;
    Problem& problem = add(handler_failing, Severity::warning,
                           counted(consumer.trying, "event") + " of the consumer " + name_ +
                               (consumer.trying == 1 ? " fails" : " fail"));
    problem.text = "A handler failed, and the next try comes by itself.";
    problem.effect = "Later events of the same keys wait; other keys are applied.";
  }
}

// What a relay reports is kept on the same disk, so another process has to look itself.
void Finder::tell_of_disk() {
  if (!view_.status->room_bytes) return;
  Problem& problem =
      add(disk_full, Severity::error, title_of({disk_full, &store_}, store_, false, ""));
  problem.text = config::human_size(*view_.status->room_bytes) + " are free on the disk of " +
                 store_.shown + ".";
  problem.effect =
      "Its relays wait, and cannot say so here; they continue by themselves when there is room.";
}

// The daemon knows from pruning that a clock was set. Another process sees that two clocks differ.
void Finder::tell_of_clock() {
  const Duration ahead = view_.status->clock_ahead;
  const bool differs = std::chrono::abs(ahead) > kClockAheadMax;
  if (!view_.clock && !differs) return;
  Problem& problem =
      add(clock_step, Severity::warning, title_of({clock_step, &store_}, store_, false, ""));
  problem.text = "Its clock is " + config::human_duration(std::chrono::abs(ahead)) +
                 (ahead > Duration{0} ? " ahead of" : " behind") + " the clock of this machine.";
  problem.effect = "Events are delivered. The ages that are shown are wrong by that time.";
  if (!view_.clock) {
    problem.title = "The clocks of the database " + store_.name + " and of this machine differ";
    return;
  }
  problem.text = *view_.clock;
  problem.effect = "Events are delivered; only the deletion of old ones waits.";
}

void Finder::find_in_relay(const assembly::RelayStatus& relay) {
  name_ = relay.name;
  config_ = configured(*overview_.config, store_, relay.name);
  const auto& consumers = overview_.config->consumers;
  is_consumer_ = std::any_of(consumers.begin(), consumers.end(),
                             [&](const auto& one) { return &one.relay == config_; });
  const std::string state = state_of(relay.lease_left, relay.said);
  if (!relay.error.empty()) {
    const bool is_mapped = !relay.table.empty() || relay.source == SourceKind::mapped;
    const ProblemKind kind = is_mapped ? wrong_mapping : relay_halted;
    Problem& problem =
        add(kind, Severity::error, title_of({kind, &store_}, store_, is_consumer_, name_));
    problem.text = relay.error;
    problem.effect = "What is pending is unknown until that is corrected.";
    if (relay.said) problem.since = relay.said->since;
  } else if (relay.said && (state == "halted" || state == "backing_off")) {
    say_what_it_said(relay, state);
  }
  if (const std::string_view held = hold_state(relay); !held.empty()) {
    Problem& problem = add(paused, Severity::note,
                           named(is_consumer_, name_) + " is " + std::string(held) +
                               (relay.hold.by.empty() ? "" : " by " + relay.hold.by));
    problem.text = relay.hold.reason.empty() ? "No reason was given." : relay.hold.reason;
    problem.effect = waiting_events(relay) + " 'dovetail relay resume " + name_ + "' continues.";
    problem.since = relay.hold.since;
  }
  if (state == "stopped" && relay.hold.hold == Hold::none) tell_of_owner(relay);
  if (state == "unknown") tell_of_silence(relay);
  if (state == "delivering" && relay.is_age_known && relay.oldest_age > limits_.lag_max) {
    Problem& problem = add(
        lag, Severity::warning,
        named(is_consumer_, name_) + " is " + config::human_duration(relay.oldest_age) + " behind");
    problem.text = counted(relay.pending, "event") + (relay.pending == 1 ? " is" : " are") +
                   " pending, and the relay delivers.";
    problem.effect = "New events arrive late until it has caught up.";
  }
  tell_of_parked(relay.parked, relay.waiting);
  tell_of_wal(relay);
}

void Finder::say_what_it_said(const assembly::RelayStatus& relay, const std::string& state) {
  const SaidState& said = *relay.said;
  const bool is_halted = state == "halted";
  const Cause cause =
      cause_of(said.last_error, is_halted, *overview_.config, store_, config_, is_consumer_);
  // The last event that failed was parked, and none came after it to show that others pass.
  const bool is_idle = knows_pending(relay) && relay.pending == 0 && relay.waiting == 0;
  if (cause.kind == handler_failing && is_idle) return;
  Problem& problem = add(cause.kind, Severity::error, title_of(cause, store_, is_consumer_, name_));
  problem.text = name_ + ": " + said.last_error;
  problem.since = said.since;
  problem.effect =
      waiting_events(relay) + (is_halted ? " It continues by itself when the cause is gone"
                                         : " It continues by itself when that is over");
  if (said.next_try && *said.next_try > overview_.at)
    problem.effect += "; next try in " + config::human_duration(*said.next_try - overview_.at);
  problem.effect += ".";
}

// It renews its lease in room that is there already. A report that needs more is not kept.
void Finder::tell_of_silence(const assembly::RelayStatus& relay) {
  if (!relay.is_age_known || relay.oldest_age < kSilenceMax) return;
  Problem& problem = add(relay_backing_off, Severity::warning,
                         named(is_consumer_, name_) + " runs and keeps no report here");
  problem.text = relay.owner +
                 " renews its lease, but what it does is not known here: " + store_.name +
                 " may be unable to keep its report, as on a full disk. Its log says more.";
  if (relay.said)
    problem.text +=
        " The last report is " +
        config::human_duration(std::max(Duration{0}, overview_.at - relay.said->since)) +
        " old, and not of this process: " + relay.said->state + ".";
  problem.effect = waiting_events(relay);
}

// Who stops in good order gives its lease back, so an owner that is still named did not.
void Finder::tell_of_owner(const assembly::RelayStatus& relay) {
  if (relay.pending == 0 && relay.waiting == 0) return;
  const bool has_run_out = !relay.owner.empty();
  Problem& problem =
      add(has_run_out ? lease_lost : no_owner, Severity::error,
          std::string("No process runs the ") + (is_consumer_ ? "consumer " : "relay ") + name_);
  problem.text = config_ == nullptr ? "This config file does not have it."
                                    : "Start 'dovetail run' with this config file.";
  // A process that cannot write could not even take the lease.
  if (!has_run_out)
    problem.text += " One that runs already cannot write here, as on a full disk: see its log.";
  if (has_run_out) {
    problem.title += ": its lease ran out";
    const bool is_known = relay.lease_ended_at != WallTime{};
    const Duration ago = std::max(Duration{0}, overview_.at - relay.lease_ended_at);
    problem.text =
        relay.owner + " did not renew it" +
        (is_known ? ", and it ended " + config::human_duration(ago) + " ago" : "") +
        "; what that process wrote here is older. Check whether it is frozen, cut off or dead, or "
        "cannot write here, as on a full disk. " +
        problem.text;
  }
  if (relay.said && !relay.said->last_error.empty())
    problem.text +=
        " Its last error, " +
        config::human_duration(std::max(Duration{0}, overview_.at - relay.said->since)) +
        " ago: " + relay.said->last_error;
  problem.effect = waiting_events(relay);
  if (relay.lease_ended_at != WallTime{})
    problem.since = relay.lease_ended_at;
  else if (relay.updated_at != WallTime{})
    problem.since = relay.updated_at;
}

void Finder::tell_of_wal(const assembly::RelayStatus& relay) {
  if (!relay.reading || config_ == nullptr || relay.lease_left <= Duration::zero()) return;
  const assembly::Reading& reading = *relay.reading;
  const auto budget = static_cast<double>(config_->reading.retained_wal_max);
  if (reading.retained_wal > 0 &&
      static_cast<double>(reading.retained_wal) > limits_.wal_warning * budget) {
    Problem& problem = add(wal_budget, Severity::warning,
                           "The database " + store_.name + " keeps " +
                               config::human_size(reading.retained_wal) + " of WAL for " + name_);
    problem.text =
        "retained_wal_max allows " + config::human_size(config_->reading.retained_wal_max) + ".";
    problem.effect = "Above it the relay gives its slot up and reads the table; nothing is lost.";
  }
  const bool has_lost = reading.why.find("is gone") != std::string::npos ||
                        reading.why.find("cannot resume") != std::string::npos ||
                        reading.why.find("retained_wal_max") != std::string::npos;
  const bool has_none = reading.why.find("replication slots are in use") != std::string::npos;
  if (reading.streams || (!has_lost && !has_none)) return;
  Problem& problem = add(slot_lost, Severity::warning,
                         named(is_consumer_, name_) +
                             (has_none ? " gets no slot in " : " lost its slot in ") + store_.name);
  problem.text = reading.why;
  problem.effect = "It reads the table until it has a new slot; nothing is lost.";
  problem.since = reading.since;
}

void Finder::tell_of_parked(std::uint64_t parked_now, std::uint64_t waiting) {
  if (parked_now == 0) return;
  Problem& problem =
      add(parked, Severity::warning,
          counted(parked_now, "event") + " of " + (is_consumer_ ? "the consumer " : "the relay ") +
              name_ + (parked_now == 1 ? " is parked" : " are parked"));
  problem.text = "See 'dovetail parked list'.";
  problem.effect = "Replay or discard: nothing happens by itself.";
  if (waiting > 0)
    problem.effect = counted(waiting, "later event") +
                     (waiting == 1 ? " waits behind. " : " wait behind. ") + problem.effect;
}

// Events that no relay has read yet appear in no other problem.
void Finder::find_unread() {
  if (view_.status->outbox_rows == 0) return;
  for (const config::RelayConfig* relay : overview_.config->readers()) {
    if (relay->from != store_.name || store_.tables.contains(relay->name)) continue;
    const auto& known = view_.status->relays;
    if (std::any_of(known.begin(), known.end(),
                    [&](const assembly::RelayStatus& one) { return one.name == relay->name; }))
      continue;
    const auto& consumers = overview_.config->consumers;
    name_ = relay->name;
    const auto consumer = std::find_if(consumers.begin(), consumers.end(),
                                       [&](const auto& one) { return &one.relay == relay; });
    is_consumer_ = consumer != consumers.end();
    if (is_consumer_ && consumer->source != SourceKind::outbox) continue;
    Problem& problem =
        add(no_owner, Severity::warning, named(is_consumer_, name_) + " has not run yet");
    problem.text = "Start 'dovetail run' with this config file.";
    problem.effect = (view_.status->are_rows_estimated ? "About " : "") +
                     counted(view_.status->outbox_rows, "event") +
                     (view_.status->outbox_rows == 1 ? " is pending, no relay has run yet."
                                                     : " are pending, no relay has run yet.");
  }
}

}  // namespace

std::string_view to_string(ProblemKind kind) {
  switch (kind) {
    case database_away:
      return "database-away";
    case database_unusable:
      return "database-unusable";
    case disk_full:
      return "disk-full";
    case pooler_down:
      return "pooler-down";
    case clock_step:
      return "clock-step";
    case broker_away:
      return "broker-away";
    case missing_topic:
      return "missing-topic";
    case wrong_mapping:
      return "wrong-mapping";
    case lease_lost:
      return "lease-lost";
    case relay_halted:
      return "relay-halted";
    case handler_failing:
      return "handler-failing";
    case relay_backing_off:
      return "relay-backing-off";
    case no_owner:
      return "no-owner";
    case parked:
      return "parked";
    case slot_lost:
      return "slot-lost";
    case wal_budget:
      return "wal-budget";
    case lag:
      return "lag";
    case paused:
      return "paused";
  }
  return "relay-backing-off";
}

std::vector<Problem> problems_of(const Overview& overview, const ProblemLimits& limits) {
  std::vector<Problem> problems;
  for (const StoreView& view : overview.stores) Finder(overview, limits, view, problems).find();
  const auto rank = [](const Problem& one) {
    return std::make_tuple(-static_cast<int>(one.severity), one.kind,
                           one.since.value_or(WallTime::max()));
  };
  std::stable_sort(problems.begin(), problems.end(), [&](const Problem& one, const Problem& other) {
    return rank(one) < rank(other);
  });
  return problems;
}

}  // namespace dovetail::app
