#include "console/metrics/metrics.h"

#include <array>

namespace dovetail::console {
namespace {

double number(std::uint64_t value) { return static_cast<double>(value); }
double seconds(Duration duration) { return static_cast<double>(duration.count()) / 1e6; }

void add_counters(Samples& samples, const Labels& relay, const RelayMetrics& metrics) {
  const auto add = [&](std::string_view name, std::string_view help,
                       const RelayMetrics::Counter& counter) {
    samples.counter(name, help, relay, number(counter.load(std::memory_order_relaxed)));
  };
  add("events_read_total", "Events read from the source", metrics.read);
  add("events_sent_total", "Events given to the receiver, repeats included", metrics.submitted);
  add("events_delivered_total", "Events that the receiver confirmed", metrics.confirmed);
  add("duplicates_suppressed_total", "Events that the receiver knew already", metrics.duplicates);
  add("retries_total", "Failed tries of events, each followed by another try or by parking",
      metrics.failed);
  add("events_rejected_total", "Events that the receiver refused for good", metrics.rejected);
  add("events_parked_total", "Events put into parking, with those behind a failed one",
      metrics.parked);
  add("events_replayed_total", "Events delivered from parking", metrics.replayed);
  add("sink_errors_total", "Connections to the receiver thrown away after an error",
      metrics.sink_errors);
  add("session_errors_total", "Sessions lost by an error of the source, the parking or the lease",
      metrics.session_errors);
  add("stalls_total", "Times without a confirmation within confirm_timeout", metrics.stalls);
  add("lease_changes_total", "Leases of lanes that this process has taken", metrics.leases_taken);
  add("stale_writes_refused_total", "Writes and sends refused because the lease was lost",
      metrics.fenced);
  add("wal_starts_total", "Changes from reading the table to reading the WAL",
      metrics.stream_starts);
  add("wal_ends_total", "Changes from reading the WAL to reading the table", metrics.stream_ends);
}

void add_gauges(Samples& samples, const Labels& relay, const Member& member,
                const RelayMetrics& metrics) {
  const auto add = [&](std::string_view name, std::string_view help,
                       const std::atomic<std::uint64_t>& gauge) {
    samples.gauge(name, help, relay, number(gauge.load(std::memory_order_relaxed)));
  };
  add("window_events", "Events that were read and are not settled", metrics.window_events);
  add("window_bytes", "Bytes of these events", metrics.window_bytes);
  add("blocked_keys", "Keys that wait behind an event in parking", metrics.blocked_keys);
  add("reads_wal", "1 while the relay reads the WAL, 0 while it reads the table", metrics.streams);
  const RelayOptions& options = member.relay->options;
  samples.gauge("window_events_limit", "The most events of one lane in the window", relay,
                number(options.window_events_max));
  samples.gauge("retained_wal_limit_bytes", "Above it the relay gives its slot up", relay,
                static_cast<double>(member.relay->reading.retained_wal_max));
  // A lane that has nothing to send need not be connected.
  samples.gauge("sink_up", "0 while some lane has lost its receiver", relay,
                metrics.sinks_lost.load(std::memory_order_relaxed) == 0 ? 1 : 0);
  using State = RelayState::Kind;
  for (const State state :
       {State::standby, State::held, State::delivering, State::backing_off, State::halted}) {
    Labels labels = relay;
    labels.emplace_back("state", to_string(state));
    const auto& count = metrics.lanes_in_state[static_cast<std::size_t>(state)];
    samples.gauge("lanes", "Lanes of this process in each state", labels,
                  number(count.load(std::memory_order_relaxed)));
  }
}

void add_lanes(Samples& samples, const Labels& relay, const assembly::RelayStatus& status) {
  for (const assembly::LaneStatus& lane : status.lanes) {
    Labels labels = relay;
    labels.emplace_back("lane", std::to_string(lane.lane));
    if (app::knows_pending(status))
      samples.gauge("lane_pending_events", "Pending events of a lane", labels,
                    number(lane.pending));
    samples.gauge("lane_epoch", "The epoch of a lane's lease; it rises with each change", labels,
                  static_cast<double>(lane.epoch));
    samples.gauge("lane_owned", "1 if a process holds the lane's lease", labels,
                  lane.lease_left > Duration::zero() ? 1 : 0);
  }
}

void add_relay(Samples& samples, const Labels& labels, const assembly::RelayStatus& relay) {
  if (app::knows_pending(relay)) {
    samples.gauge("pending_events", "Events published and not delivered or parked", labels,
                  number(relay.pending));
    if (relay.is_age_known)
      samples.gauge("oldest_pending_age_seconds", "Age of the oldest pending event; 0: none",
                    labels, seconds(relay.oldest_age));
  }
  samples.gauge("parked_keys", "Keys that wait for an operator", labels, number(relay.parked));
  samples.gauge("parked_events", "Events in parking: those that failed and those behind them",
                labels, number(relay.parked + relay.waiting));
  samples.gauge("relay_owned", "1 if some process holds the lease", labels,
                relay.lease_left > Duration::zero() ? 1 : 0);
  if (relay.reading)
    samples.gauge("retained_wal_bytes", "WAL that the server keeps for the relay's slot", labels,
                  number(relay.reading->retained_wal));
  add_lanes(samples, labels, relay);
}

void add_consumers(Samples& samples, const std::string& store,
                   const assembly::StoreStatus& status) {
  for (const ConsumerStatus& consumer : status.consumers) {
    const Labels labels{{"store", store}, {"consumer", consumer.name}};
    samples.counter("consumer_applied_total", "Events that the inbox has applied", labels,
                    number(consumer.applied));
    samples.counter("consumer_duplicates_total", "Events that the inbox knew already", labels,
                    number(consumer.duplicates));
    samples.counter("consumer_superseded_total",
                    "Events skipped because a later version was applied", labels,
                    number(consumer.superseded));
    samples.gauge("consumer_failing_events", "Events that have failed and are tried again", labels,
                  number(consumer.trying));
    samples.gauge("consumer_claims", "Claims that are held", labels, number(consumer.claims));
  }
  for (const QueueStatus& queue : status.queues) {
    const Labels labels{{"store", store}, {"consumer", queue.consumer}};
    samples.gauge("queue_events", "Events in the queue of a consumer", labels,
                  number(queue.events));
    samples.gauge("queue_oldest_age_seconds", "Age of the oldest event in the queue", labels,
                  seconds(queue.oldest_age));
    samples.gauge("queue_parked_events", "Events of the queue that wait for an operator", labels,
                  number(queue.parked));
  }
}

constexpr std::array kProblemKinds = {app::ProblemKind::database_away,
                                      app::ProblemKind::database_unusable,
                                      app::ProblemKind::disk_full,
                                      app::ProblemKind::pooler_down,
                                      app::ProblemKind::clock_step,
                                      app::ProblemKind::broker_away,
                                      app::ProblemKind::missing_topic,
                                      app::ProblemKind::wrong_mapping,
                                      app::ProblemKind::lease_lost,
                                      app::ProblemKind::relay_halted,
                                      app::ProblemKind::handler_failing,
                                      app::ProblemKind::relay_backing_off,
                                      app::ProblemKind::no_owner,
                                      app::ProblemKind::parked,
                                      app::ProblemKind::slot_lost,
                                      app::ProblemKind::wal_budget,
                                      app::ProblemKind::lag,
                                      app::ProblemKind::paused};

}  // namespace

void add_members(Samples& samples, const std::vector<Member>& members) {
  for (const Member& member : members) {
    const RelayMetrics& metrics = member.lane->metrics();
    const Labels relay{{"relay", member.relay->name}};
    add_counters(samples, relay, metrics);
    add_gauges(samples, relay, member, metrics);
    samples.histogram("commit_to_confirm_seconds",
                      "From the commit of an event to the receiver's confirmation", relay,
                      metrics.commit_to_confirm);
    samples.histogram("receive_to_applied_seconds",
                      "From reading an event to the receiver's confirmation; for a consumer, to "
                      "the commit of its handlers",
                      relay, metrics.receive_to_confirm);
  }
}

void add_stores(Samples& samples, const app::Overview& overview) {
  for (const app::StoreView& view : overview.stores) {
    if (view.store->is_broker() || (!view.status && !view.failure)) continue;
    const Labels store{{"store", view.store->name}};
    samples.gauge("store_up", "1 if the database answers", store, view.status ? 1 : 0);
    if (!view.status) continue;
    for (const assembly::RelayStatus& relay : view.status->relays)
      add_relay(samples, {{"store", view.store->name}, {"relay", relay.name}}, relay);
    add_consumers(samples, view.store->name, *view.status);
    if (view.status->delayed)
      samples.gauge("delayed_events", "Events with a later delivery time", store,
                    number(view.status->delayed->events));
  }
}

void add_problems(Samples& samples, const std::vector<app::Problem>& problems) {
  for (const app::ProblemKind kind : kProblemKinds) {
    double count = 0;
    for (const app::Problem& problem : problems) count += problem.kind == kind ? 1 : 0;
    samples.gauge("problems", "Problems of each kind, as 'dovetail status' lists them",
                  {{"kind", std::string(to_string(kind))}}, count);
  }
}

void add_build(Samples& samples, const std::string& version) {
  samples.gauge("build_info", "1, with the version as a label", {{"version", version}}, 1);
}

}  // namespace dovetail::console
