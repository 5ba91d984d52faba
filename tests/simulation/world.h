// The simulated world: virtual time, actors that run one at a time, and a seed that makes every
// decision.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "simulation/fiber.h"
#include "simulation/options.h"

namespace dovetail::sim {

// Thrown out of an adapter call when its process dies there. Not derived from std::exception, so
// that no handler catches it by accident.
struct Crashed {};
// Thrown into every actor when the simulation is over.
struct Ended {};

class World;

// One process, or one relevant thread of it.
class Actor {
 public:
  const std::string& name() const { return name_; }
  bool is_down() const { return down_; }
  bool is_paused(TimePoint now) const { return paused_until_ > now; }
  void set_down(bool down) { down_ = down; }
  // How far its machine's wall clock is off.
  Duration wall_step() const { return wall_step_; }
  void step_wall(Duration step) { wall_step_ = step; }
  std::stop_source& stop() { return stop_; }
  void new_life() { stop_ = std::stop_source(); }

 private:
  friend class World;
  std::string name_;
  std::unique_ptr<Fiber> fiber_;
  std::uint64_t ticket_ = 0;  // numbers its waits, so that an old wake-up cannot end a new wait
  bool waiting_ = false;
  bool killed_ = false;
  bool mortal_ = false;  // whether crash points apply to it
  bool down_ = false;    // between a crash and the restart
  TimePoint paused_until_{};
  Duration wall_step_{};
  std::stop_source stop_;
};

// Actors that wait for the same event.
class WaitQueue {
 private:
  friend class World;
  std::vector<Actor*> waiting_;
};

class World {
 public:
  World(const Options& options, bool tracing);
  ~World();

  const Options& options() const { return options_; }
  TimePoint now() const { return now_; }
  Random& random() { return random_; }
  bool chance(double probability) { return probability > 0 && random_.chance(probability); }
  // The same, only while faults are allowed; counted under `name`.
  bool fault(double probability, std::string_view name);
  bool faults_on() const { return faults_on_; }
  void heal() { faults_on_ = false; }

  Actor& spawn(std::string name, bool mortal, std::function<void(Actor&)> body);
  void at(Duration delay, std::function<void()> call);
  // Runs until `done`, until nothing is left to do, or until `until`.
  void run(TimePoint until, const std::function<bool()>& done);
  // Ends every actor.
  void end();

  // For the running actor.
  Actor& current();
  void sleep(Duration duration) { wait_until(now_ + duration); }
  void wait(WaitQueue& queue, TimePoint until);
  // A point where the running process may die.
  void crash_point(std::string_view call, std::string_view when);
  [[noreturn]] void crash_now();

  void wake_all(WaitQueue& queue);
  void kill(Actor& actor);
  void pause(Actor& actor, Duration duration);
  void request_stop(Actor& actor);

  // Adds a line to the trace. The hash covers all lines, printed or not.
  void note(std::string_view what, std::string_view detail = {}, std::int64_t a = 0,
            std::int64_t b = 0);
  std::uint64_t trace_hash() const { return hash_; }
  std::uint64_t steps() const { return steps_; }

  // A rare branch: a run of many seeds fails if it was never taken.
  void sometimes(std::string_view name);
  const std::map<std::string, std::uint64_t, std::less<>>& counters() const { return counters_; }

  void violation(std::string_view rule, std::string text);
  const std::vector<std::pair<std::string, std::string>>& violations() const { return violations_; }

  // Called by the clock: a loop that asks for the time forever and does nothing else is a
  // livelock.
  void count_clock_read();

 private:
  struct Wakeup {
    TimePoint at;
    std::uint64_t number;
    Actor* actor;
    std::uint64_t ticket;
    std::function<void()> call;
    bool operator>(const Wakeup& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  void wait_until(TimePoint until);
  void push(TimePoint at, Actor* actor, std::uint64_t ticket, std::function<void()> call);
  void wake(Actor& actor);
  void step();

  const Options options_;
  const bool tracing_;
  Random random_;
  TimePoint now_{};
  bool faults_on_ = true;
  bool ending_ = false;
  std::uint64_t next_number_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t clock_reads_ = 0;
  std::uint64_t hash_ = 14695981039346656037U;
  std::priority_queue<Wakeup, std::vector<Wakeup>, std::greater<>> wakeups_;
  std::vector<std::unique_ptr<Actor>> actors_;
  Actor* running_ = nullptr;
  std::map<std::string, std::uint64_t, std::less<>> counters_;
  std::vector<std::pair<std::string, std::string>> violations_;
};

// A process's view of virtual time. Its zero differs from the server's, so that mixing the two is
// noticed.
class VirtualClock final : public Clock {
 public:
  VirtualClock(World& world, Duration offset) : world_(world), offset_(offset) {}

  TimePoint now() override {
    world_.count_clock_read();
    return world_.now() + offset_;
  }
  WallTime wall() override { return wall_of(world_.now()) + world_.current().wall_step(); }
  void sleep(Duration duration, std::stop_token stop) override {
    if (!stop.stop_requested()) world_.sleep(duration);
  }
  static WallTime wall_of(TimePoint time) {
    return WallTime(std::chrono::seconds(1'800'000'000) + time.time_since_epoch());
  }

 private:
  World& world_;
  Duration offset_;
};

}  // namespace dovetail::sim
