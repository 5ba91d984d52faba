// The writers and the nemesis of a simulation: where changes come from, and what happens to the
// processes.
#include <algorithm>
#include <iterator>
#include <utility>

#include "simulation/simulation.h"

namespace dovetail::sim {

using std::chrono::milliseconds;

StoredEvent Simulation::make_event(std::uint64_t key, std::int64_t version) {
  Random& random = world_.random();
  StoredEvent event;
  const std::uint64_t number = next_event_++;
  const std::uint64_t scatter = number * 0x9e3779b97f4a7c15U;
  for (std::size_t i = 0; i < 8; ++i) {
    event.id.bytes[i] = static_cast<std::uint8_t>(number >> (8 * (7 - i)));
    event.id.bytes[8 + i] = static_cast<std::uint8_t>(scatter >> (8 * i));
  }
  event.aggregate_type = key == 0 ? "log" : (key % 2 == 0 ? "order" : "customer");
  if (key != 0) event.aggregate_id = "k" + std::to_string(key);
  event.aggregate_version = version;
  event.type = "changed";
  event.content_type = "application/octet-stream";
  if (random.chance(0.2)) event.headers = "{\"trace\":\"" + std::to_string(number) + "\"}";
  if (random.chance(0.2)) event.topic = "audit";
  const std::uint64_t length = 1 + random.below(random.chance(0.05) ? 900 : 40);
  for (std::uint64_t i = 0; i < length; ++i)
    event.payload.push_back(static_cast<char>(random.below(256)));
  event.created_at = database_.server.wall();
  return event;
}

void Simulation::writer(Actor& actor) {
  Connection connection(database_.server);
  for (std::uint64_t i = 0; i < world_.options().transactions_per_writer; ++i) {
    bool crashed = false;
    try {
      world_.sleep(random_time(world_.options().think_time));
      if (!connection.is_up() && !connection.open("writer.connect")) continue;
      write_transaction(actor, connection);
    } catch (const Crashed&) {
      crashed = true;
    }
    if (!crashed) continue;
    connection.drop();
    world_.sleep(random_time(milliseconds(300)));
  }
  --writers_left_;
}

void Simulation::write_transaction(Actor&, Connection& connection) {
  ModelDatabase& tables = database_.tables;
  const TxId tx = tables.begin();
  struct Abandoned {  // the server notices later that the client is gone
    Simulation& simulation;
    TxId tx;
    ~Abandoned() {
      if (!simulation.database_.tables.is_open(tx)) return;
      const auto end = [&simulation = simulation, tx = tx] {
        if (!simulation.database_.tables.is_open(tx)) return;
        simulation.database_.tables.rollback(tx);
        simulation.world_.wake_all(simulation.database_.changed);
      };
      simulation.world_.at(simulation.random_time(milliseconds(300)), end);
    }
  } abandoned{*this, tx};
  // An id taken long before the first change makes the order of ids differ from the order of
  // changes.
  if (world_.chance(0.3)) tables.xid_of(tx);
  if (!write_rows(tx, connection)) return;
  world_.sleep(random_time(world_.options().think_time));
  if (world_.fault(world_.options().rollback, "rollback")) {
    if (tables.is_open(tx)) tables.rollback(tx);
    world_.wake_all(database_.changed);
    return;
  }
  (void)commit(tx, connection);
}

Status Simulation::lock_row(TxId tx, const std::string& aggregate, Connection& connection) {
  const TimePoint until = world_.now() + milliseconds(3000);
  for (;;) {
    bool locked = false;
    DOVETAIL_TRY(connection.call("writer.lock", [&]() -> Status {
      if (!database_.tables.is_open(tx)) return fail(Errc::unavailable, "aborted");
      locked = database_.tables.try_lock(tx, aggregate);
      return {};
    }));
    if (locked) return {};
    world_.sometimes("writer waited for a row lock");
    if (world_.now() >= until) return fail(Errc::unavailable, "lock timeout");
    world_.wait(database_.changed, until);
  }
}

Status Simulation::write_rows(TxId tx, Connection& connection) {
  ModelDatabase& tables = database_.tables;
  const Options& options = world_.options();
  std::set<std::uint64_t> keys;  // in order, so that writers do not deadlock
  for (std::uint64_t i = 0; i <= world_.random().below(3); ++i)
    keys.insert(world_.chance(0.1) ? 0
                                   : 1 + world_.random().below(world_.chance(0.5) ? options.hot_keys
                                                                                  : options.keys));
  for (const std::uint64_t key : keys) {
    const std::string aggregate = "row " + std::to_string(key);
    if (key != 0) DOVETAIL_TRY(lock_row(tx, aggregate, connection));
    const auto write = [&]() -> Status {
      if (!tables.is_open(tx)) return fail(Errc::unavailable, "aborted");
      const std::int64_t version = key == 0 ? 0 : tables.version(tx, aggregate) + 1;
      tables.write(tx, aggregate, make_event(key, version));
      return {};
    };
    DOVETAIL_TRY(connection.call("writer.write", write));
    if (world_.fault(options.savepoint, "rollback to savepoint")) {
      tables.savepoint(tx);
      DOVETAIL_TRY(connection.call("writer.write", write));
      if (tables.is_open(tx)) tables.rollback_to_savepoint(tx);
    }
    if (world_.chance(0.3)) world_.sleep(random_time(options.think_time));
  }
  return {};
}

Status Simulation::commit(TxId tx, Connection& connection) {
  const auto commit_now = [this, tx]() -> Status {
    if (!database_.tables.is_open(tx)) return fail(Errc::unavailable, "aborted");
    database_.tables.commit(tx);
    world_.note("writer.commit", "transaction", static_cast<std::int64_t>(tx));
    world_.wake_all(database_.changed);
    return {};
  };
  if (world_.fault(world_.options().unknown_commit, "unknown commit")) {
    // The reply never comes. The commit may have happened, may happen later, or never.
    connection.drop();
    if (world_.chance(0.6))
      world_.at(random_time(milliseconds(250)), [commit_now] { (void)commit_now(); });
    world_.sleep(milliseconds(260));
    return fail(Errc::in_doubt, "no reply");
  }
  return connection.call("writer.commit", commit_now);
}

void Simulation::nemesis(Actor&) {
  while (world_.faults_on()) {
    world_.sleep(milliseconds(50) + random_time(milliseconds(1200)));
    if (world_.faults_on()) strike();
  }
}

// Relays see numbers that are not on disk, then the server crashes, and through the pooler they see
// it again only after it gave some of these numbers to others.
void Simulation::crash_database() {
  ModelDatabase& tables = database_.tables;
  for (std::uint64_t i = 0; i <= world_.random().below(6); ++i) {
    const TxId tx = tables.begin();
    tables.xid_of(tx);
    tables.rollback(tx);
  }
  world_.wake_all(database_.changed);
  world_.at(random_time(milliseconds(60)), [this] {
    const Xid before = database_.tables.snapshot().xmax;
    progress_lost_ += database_.tables.crash();
    broker_.forget_recorded();
    if (database_.tables.snapshot().xmax < before) world_.sometimes("numbers given twice");
    world_.sometimes("database crashed behind a pooler");
    world_.note("nemesis.crash");
    database_.server.crash_behind_pooler(random_time(milliseconds(1500)));
    world_.wake_all(database_.changed);
  });
}

Duration Simulation::random_step() {
  constexpr std::chrono::hours kSteps[] = {std::chrono::hours(-48), std::chrono::hours(-1),
                                           std::chrono::hours(1), std::chrono::hours(48)};
  return kSteps[world_.random().below(std::size(kSteps))];
}

void Simulation::step_database_clock() {
  Server& server = world_.chance(0.6) ? database_.server : inbox_.server;
  world_.sometimes("database clock stepped");
  const Duration step = random_step();
  world_.note("nemesis.clock", server.name(),
              std::chrono::duration_cast<std::chrono::hours>(step).count());
  server.step_clock(step);
}

void Simulation::strike() {
  const Options& options = world_.options();
  std::vector<Actor*> everybody = processes_;
  everybody.insert(everybody.end(), writers_.begin(), writers_.end());
  Actor& anybody = *everybody[world_.random().below(everybody.size())];
  Actor& process = *processes_[world_.random().below(processes_.size())];
  if (options.database_steps && world_.chance(0.15)) return step_database_clock();
  switch (world_.random().below(12)) {
    case 0:
      if (!options.kills) return;
      world_.sometimes("killed");
      world_.note("nemesis.kill", process.name());
      return world_.kill(process);
    case 1:
      if (!options.pauses) return;
      world_.sometimes("paused");
      world_.note("nemesis.pause", anybody.name());
      return world_.pause(anybody, milliseconds(50) + random_time(options.lease_term * 3));
    case 2:
      if (!options.rolling_restarts) return;
      world_.sometimes("restarted in good order");
      world_.note("nemesis.restart", process.name());
      return world_.request_stop(process);
    case 3:
      if (!options.database_restarts) return;
      world_.sometimes("database restarted");
      world_.note("nemesis.database");
      if (world_.chance(0.5)) {
        database_.server.go_down(random_time(milliseconds(1500)));
        database_.tables.rollback_all();
        return world_.wake_all(database_.changed);
      }
      inbox_.server.go_down(random_time(milliseconds(1500)));
      inbox_.tables.rollback_all();
      return world_.wake_all(inbox_.changed);
    case 10:
      return options.database_crashes ? crash_database() : void();
    case 4:
      if (!options.broker_outages) return;
      world_.sometimes("broker outage");
      world_.note("nemesis.broker");
      return broker_.server().go_down(random_time(milliseconds(3000)));
    case 5:
      if (!options.broker_blocks) return;
      world_.note("nemesis.block");
      return broker_.block_for(random_time(milliseconds(2500)));
    case 6:
      if (!options.rebalances) return;
      world_.note("nemesis.rebalance");
      for (auto& [name, group] : broker_.groups()) broker_.rebalance(group);
      return;
    case 7:
      if (options.sick_sinks)
        return broker_.fall_sick(milliseconds(300) + random_time(milliseconds(3000)), Fate::failed);
      if (options.full_sinks)
        return broker_.fall_sick(milliseconds(300) + random_time(milliseconds(3000)), Fate::busy);
      return;
    case 8:
      if (!options.sick_handlers) return;
      if (world_.now() < inbox_.handlers_sick_until + milliseconds(1500)) return;
      world_.note("nemesis.handlers");
      inbox_.handlers_sick_until =
          world_.now() + milliseconds(300) + random_time(milliseconds(3000));
      return;
    case 9: {
      if (!options.wall_steps) return;
      world_.sometimes("wall clock stepped");
      world_.note("nemesis.wall", process.name());
      return process.step_wall(world_.chance(0.2) ? Duration{} : random_step());
    }
    default:
      if (!options.service_outages) return;
      world_.sometimes("service outage");
      world_.note("nemesis.service");
      inbox_.service_down_until = world_.now() + random_time(milliseconds(2500));
  }
}

}  // namespace dovetail::sim
