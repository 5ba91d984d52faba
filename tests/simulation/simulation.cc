#include "simulation/simulation.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace dovetail::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr Duration kDrainMax = seconds(240);  // after healing
constexpr Duration kStopMax = seconds(30);
constexpr Duration kMemberTimeout = milliseconds(500);

TopicTemplate topics() { return std::move(*TopicTemplate::parse("{aggregate_type}.events")); }

}  // namespace

Simulation::Simulation(const Options& options, bool tracing)
    : world_(options, tracing),
      database_(world_, options.lanes),
      broker_(world_, options.partitions),
      inbox_(world_),
      topics_(topics()) {}

Duration Simulation::random_time(Duration most) {
  return Duration(world_.random().below(static_cast<std::uint64_t>(most.count()) + 1));
}

void Simulation::run() {
  const Options& options = world_.options();
  for (std::uint64_t i = 0; i < options.writers; ++i) {
    ++writers_left_;
    writers_.push_back(&world_.spawn("writer-" + std::to_string(i + 1), true,
                                     [this](Actor& actor) { writer(actor); }));
  }
  for (std::uint64_t i = 0; i < options.relays; ++i) {
    const auto lane = static_cast<std::uint32_t>(i % options.lanes);
    processes_.push_back(&world_.spawn("relay-" + std::to_string(i + 1), true,
                                       [this, lane](Actor& actor) { relay_process(actor, lane); }));
  }
  for (std::uint64_t c = 0; c < options.consumers; ++c) {
    consumers_.push_back("consumer-" + std::string(1, static_cast<char>('a' + c)));
    for (std::uint64_t i = 0; i < options.members; ++i) {
      processes_.push_back(&world_.spawn(
          consumers_.back() + std::to_string(i + 1), true,
          [this, name = consumers_.back()](Actor& actor) { consumer_process(actor, name); }));
    }
  }
  processes_left_ = processes_.size();
  world_.spawn("nemesis", false, [this](Actor& actor) { nemesis(actor); });
  world_.spawn("operator", false, [this](Actor& actor) { operator_desk(actor); });
  watch_groups();

  world_.run(TimePoint(options.faults_for), [] { return false; });
  if (!world_.violations().empty()) return;
  world_.heal();
  world_.note("healed");
  world_.run(world_.now() + kDrainMax, [this] { return at_rest_; });
  if (!world_.violations().empty()) return;
  if (!at_rest_) {
    world_.violation("liveness", "after healing not everything arrived: " + unfinished());
    return;
  }
  stopping_ = true;
  for (Actor* process : processes_) world_.request_stop(*process);
  world_.run(world_.now() + kStopMax, [this] { return processes_left_ == 0; });
  if (world_.violations().empty() && processes_left_ > 0)
    world_.violation("liveness", "a relay does not stop when it is asked to");
}

// The lives of one process: it crashes and starts again.
template <class Life>
void Simulation::live(Actor& actor, Life life) {
  while (!stopping_) {
    bool crashed = false;
    actor.new_life();
    try {
      life();
    } catch (const Crashed&) {
      crashed = true;
    }
    if (!crashed) continue;
    ++crashes_;
    world_.sometimes("crash");
    world_.note("crashed");
    actor.set_down(true);
    broker_.client_died(actor);
    inbox_.client_died(actor);
    alarm_ = true;
    world_.sleep(milliseconds(1) + random_time(milliseconds(500)));
    actor.set_down(false);
  }
  --processes_left_;
}

RelayOptions Simulation::consumer_options() {
  const Options& options = world_.options();
  RelayOptions relay;
  relay.attempts_max = options.attempts_max;
  relay.confirm_timeout = milliseconds(800);
  relay.drain_timeout = seconds(2);
  relay.replay_poll = milliseconds(100);
  relay.key_retry = {milliseconds(20), milliseconds(300)};
  relay.connect_retry = {milliseconds(20), milliseconds(500)};
  relay.batch_events_max = options.batch_events_max;
  relay.batch_bytes_max = options.batch_bytes_max;
  relay.batches_in_flight_max = options.batches_in_flight_max;
  relay.batch_time_max = options.batch_time_max();
  relay.window_events_max = options.window_events_max;
  relay.idle_wait = milliseconds(100);
  relay.aside_after = options.aside_after;
  relay.blocked_keys_max = options.blocked_keys_max;
  relay.busy_for = seconds(3600);
  relay.progress_interval = options.progress_interval;
  relay.seed = world_.random().next();
  return relay;
}

RelayOptions Simulation::relay_options() {
  RelayOptions relay = consumer_options();
  if (world_.options().filters) relay.filter.aggregate_types = {"order", "log"};
  return relay;
}

void Simulation::run_until_stopped(RelayPorts ports, RelayOptions options, Actor& actor,
                                   const std::function<void(RelayNotice::Kind)>& noticed) {
  ports.notify = [this, &noticed](const RelayNotice& notice) {
    noticed(notice.kind);
    world_.note("notice", std::string(to_string(notice.kind)) + ": " + notice.text);
    world_.sometimes("notice " + std::string(to_string(notice.kind)));
    const bool ran_out = notice.text.find("the lease ran out") != std::string::npos;
    if (ran_out) world_.sometimes("lease ran out");
    if (ran_out && !world_.options().may_lose_lease())
      world_.violation("lease",
                       "it ran out although nothing was paused and the database was there");
  };
  Relay relay(std::move(ports), std::move(options));
  const Status ended = relay.run(actor.stop().get_token());
  if (!ended) world_.violation("liveness", "a relay halted: " + ended.error().text);
}

void Simulation::relay_process(Actor& actor, std::uint32_t lane) {
  const Duration offset = random_time(seconds(1000));
  Duration wait = world_.options().relays_start_after;
  live(actor, [&] {
    world_.sleep(std::exchange(wait, Duration{}));
    run_relay(actor, lane, offset);
  });
}

void Simulation::run_relay(Actor& actor, std::uint32_t lane, Duration clock_offset) {
  VirtualClock clock(world_, clock_offset);
  SimLease lease(database_, lane, actor.name(), clock);
  LaneMemory& memory = lane_memory_[lane];
  SimParking parking(database_, lease);
  BrokerSink sink(broker_, lease, clock);
  OutboxSource source(database_, lease, [&](const EventId& id) {
    if (!sink.confirmed().contains(id)) memory.read.insert(id);
  });
  RelayMetrics metrics;
  run_until_stopped({source, sink, parking, lease, clock, metrics, {}, &topics_}, relay_options(),
                    actor, [&](RelayNotice::Kind kind) {
                      if (kind == RelayNotice::Kind::started) {
                        sink.begin_session();
                        if (!std::exchange(memory.ended_in_order, false)) memory.read.clear();
                      }
                      if (kind != RelayNotice::Kind::drained) return;
                      memory.ended_in_order = true;
                      // A lost session may have left an event in parking that the source returns
                      // again. Without a key neither waits for the other.
                      for (const EventId& id : sink.confirmed())
                        if (memory.read.contains(id) && !database_.parked_without_key.contains(id))
                          broker_.recorded(id);
                    });
}

void Simulation::consumer_process(Actor& actor, const std::string& consumer) {
  const Duration offset = random_time(seconds(1000));
  live(actor, [&] { run_consumer(actor, consumer, offset); });
}

void Simulation::run_consumer(Actor& actor, const std::string& consumer, Duration clock_offset) {
  VirtualClock clock(world_, clock_offset);
  NoLease lease;
  BrokerSource source(broker_, consumer, actor);
  ConsumerParking parking(inbox_, consumer, broker_, actor);
  SimInboxStore store(inbox_, consumer, actor);
  Inbox inbox(store, {deaths_max(world_.options().attempts_max), 20});
  RelayMetrics metrics;
  run_until_stopped({source, inbox, parking, lease, clock, metrics, {}, nullptr},
                    consumer_options(), actor, [](RelayNotice::Kind) {});
  broker_.leave(broker_.group(consumer), actor.name());
  // If close() fails, the next session is only more careful. For the database this process died,
  // perhaps inside a counted try.
  if (!inbox.close()) inbox_.client_died(actor);
}

// The broker drops members that it has not heard from for a while, because their process is down or
// stopped.
void Simulation::watch_groups() {
  for (Actor* process : processes_) {
    const bool in_handler = inbox_.in_handler.contains(process->name());
    const bool absent = in_handler || process->is_down() || process->is_paused(world_.now());
    if (!absent) {
      absent_since_.erase(process->name());
      continue;
    }
    const TimePoint since = absent_since_.try_emplace(process->name(), world_.now()).first->second;
    if (world_.now() - since < kMemberTimeout) continue;
    if (in_handler) world_.sometimes("member dropped while its handler ran");
    for (auto& [name, group] : broker_.groups()) broker_.leave(group, process->name());
  }
  world_.at(milliseconds(100), [this] { watch_groups(); });
}

void Simulation::operator_desk(Actor&) {
  for (;;) {
    world_.sleep(milliseconds(100));
    // A crash alarms the operator, who replays everything, often before the process is back.
    const bool alarmed = std::exchange(alarm_, false);
    const bool at_end = !world_.faults_on();
    if (world_.options().operator_holds) order_hold(at_end);
    if (!at_end && !world_.options().operator_replays) continue;
    const bool everything = at_end || alarmed;
    for (std::uint32_t lane = 0; lane < database_.tables.lanes(); ++lane)
      visit(database_.tables.lane(lane).parked, {}, everything);
    for (const std::string& consumer : consumers_)
      visit(inbox_.tables.parked(consumer), consumer, everything);
    if (at_end && writers_left_ == 0) at_rest_ = unfinished().empty();
  }
}

// Of one relay, in all of its lanes.
void Simulation::order_hold(bool resumes) {
  if (!resumes && !world_.chance(0.02)) return;
  constexpr Hold kOrders[] = {Hold::none, Hold::paused, Hold::draining};
  const Hold order = resumes ? Hold::none : kOrders[world_.random().below(std::size(kOrders))];
  for (std::uint32_t lane = 0; lane < database_.tables.lanes(); ++lane) {
    Hold& hold = database_.tables.lane(lane).hold;
    if (hold == order || (hold == Hold::drained && order == Hold::draining)) continue;
    world_.note("operator.hold", to_string(order), lane);
    if (stops(hold) && order == Hold::none) world_.sometimes("held relay resumed");
    hold = order;
  }
}

void Simulation::visit(ParkedRows& rows, const std::string& consumer, bool everything) {
  std::vector<EventId> parked;
  for (const auto& [id, row] : rows.rows())
    if (!row.discarded && row.state == ParkState::parked) parked.push_back(id);
  for (const EventId& id : parked) {
    if (!everything && !world_.chance(0.1)) continue;
    if (world_.chance(0.5)) broker_.mend(id);
    if (world_.options().operator_discards && world_.faults_on() && world_.chance(0.3)) {
      world_.sometimes("discarded by an operator");
      rows.discard(id, "discarded by the operator");
      if (consumer.empty()) {
        discarded_.insert(id);
      } else {
        discarded_by_consumer_.insert({consumer, id});
      }
    } else if (rows.replay(id, consumer.empty() ? database_.server.wall() : inbox_.server.wall())) {
      world_.note("operator.replay", consumer);
      world_.sometimes(consumer.empty() ? "replayed by an operator" : "replayed at a consumer");
    }
  }
}

std::string Simulation::unfinished() {
  ModelDatabase& tables = database_.tables;
  if (writers_left_ > 0) return "a writer is still at work";
  for (const StoredEvent& event : tables.business_changes()) {
    if (!broker_.has(event.id) && !discarded_.contains(event.id) &&
        world_.options().carries(event.aggregate_type))
      return "not at the broker: " + event.aggregate_id + " version " +
             std::to_string(event.aggregate_version);
  }
  for (std::uint32_t lane = 0; lane < tables.lanes(); ++lane) {
    for (const auto& [id, row] : tables.lane(lane).parked.rows())
      if (!row.discarded) return "still in parking: " + row.event.aggregate_id;
    const Progress& progress = tables.lane(lane).progress;
    for (const OutboxRow* row : tables.window(progress, tables.snapshot()))
      if (lane_of(row->event.key_hash, tables.lanes()) == lane)
        return "not settled: seq " + std::to_string(row->seq);
  }
  for (const std::string& consumer : consumers_) {
    for (const auto& [id, row] : inbox_.tables.parked(consumer).rows())
      if (!row.discarded) return "still in a consumer's parking: " + row.event.aggregate_id;
    const auto& committed = broker_.group(consumer).committed;
    for (std::size_t i = 0; i < committed.size(); ++i)
      if (committed[i] != broker_.partitions()[i].size())
        return consumer + " has not come to the end of partition " + std::to_string(i);
  }
  return {};
}

}  // namespace dovetail::sim
