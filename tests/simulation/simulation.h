// One run: servers, processes, faults, and phases. First everything fails, then it heals, then
// everything must arrive.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/relay/relay.h"
#include "simulation/database_adapters.h"
#include "simulation/inbox_adapters.h"
#include "simulation/model_broker.h"
#include "simulation/world.h"

namespace dovetail::sim {

class Simulation {
 public:
  Simulation(const Options& options, bool tracing);
  ~Simulation() { world_.end(); }  // while everything that its actors use still exists

  // Runs all phases; world() has the violations.
  void run();

  World& world() { return world_; }
  DatabaseServer& database() { return database_; }
  ModelBroker& broker() { return broker_; }
  InboxServer& inbox() { return inbox_; }
  const std::vector<std::string>& consumers() const { return consumers_; }
  const std::set<EventId>& discarded() const { return discarded_; }
  const std::set<std::pair<std::string, EventId>>& discarded_by_consumer() const {
    return discarded_by_consumer_;
  }
  // How often something happened that allows events in flight to be sent again.
  std::uint64_t disturbances() const { return crashes_ + broker_.connects(); }
  // Settled events whose progress was not on disk when the database crashed.
  std::uint64_t progress_lost() const { return progress_lost_; }

  // Why the run is not at rest yet; empty: everything has arrived.
  std::string unfinished();

 private:
  // What the sessions of a lane have read since one ended without recording its progress. A crash
  // moves the source back, and events that it returns again may have been delivered from parking.
  struct LaneMemory {
    bool ended_in_order = false;
    std::set<EventId> read{};
  };

  void writer(Actor& actor);
  void write_transaction(Actor& actor, Connection& connection);
  Status write_rows(TxId tx, Connection& connection);
  Status lock_row(TxId tx, const std::string& aggregate, Connection& connection);
  Status commit(TxId tx, Connection& connection);
  StoredEvent make_event(std::uint64_t key, std::int64_t version);
  void relay_process(Actor& actor, std::uint32_t lane);
  void run_relay(Actor& actor, std::uint32_t lane, Duration clock_offset);
  void consumer_process(Actor& actor, const std::string& consumer);
  void run_consumer(Actor& actor, const std::string& consumer, Duration clock_offset);
  template <class Life>
  void live(Actor& actor, Life life);
  void run_until_stopped(RelayPorts ports, RelayOptions options, Actor& actor,
                         const std::function<void(RelayNotice::Kind)>& noticed);
  RelayOptions relay_options();
  RelayOptions consumer_options();
  void nemesis(Actor& actor);
  void strike();
  void crash_database();
  Duration random_step();
  void step_database_clock();
  void operator_desk(Actor& actor);
  void order_hold(bool resumes);
  void visit(ParkedRows& rows, const std::string& consumer, bool everything);
  void watch_groups();
  Duration random_time(Duration most);

  std::map<std::uint32_t, LaneMemory> lane_memory_;
  World world_;
  DatabaseServer database_;
  ModelBroker broker_;
  InboxServer inbox_;
  TopicTemplate topics_;
  std::vector<std::string> consumers_;
  std::vector<Actor*> processes_;  // relays and consumers
  std::vector<Actor*> writers_;
  std::uint64_t writers_left_ = 0;
  std::uint64_t processes_left_ = 0;
  std::uint64_t crashes_ = 0;
  std::uint64_t progress_lost_ = 0;
  std::uint64_t next_event_ = 1;
  bool at_rest_ = false;
  bool alarm_ = false;  // a process crashed
  bool stopping_ = false;
  std::set<EventId> discarded_;
  std::set<std::pair<std::string, EventId>> discarded_by_consumer_;
  std::map<std::string, TimePoint> absent_since_;  // members that the broker does not hear
};

}  // namespace dovetail::sim
