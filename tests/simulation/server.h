// A server and its connections: everything that can fail between request and reply.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/clock.h"
#include "dovetail/result.h"
#include "simulation/world.h"

namespace dovetail::sim {

// Up or down; a restart breaks every connection. After a crash, connections through a pooler
// survive and wait until the pooler reaches the server again.
class Server {
 public:
  Server(World& world, std::string name) : world_(world), name_(std::move(name)) {}

  World& world() { return world_; }
  const std::string& name() const { return name_; }
  bool is_up() const { return world_.now() >= down_until_; }
  std::uint64_t generation() const { return generation_; }
  std::uint64_t pooled_generation() const { return pooled_generation_; }
  TimePoint held_until() const { return held_until_; }
  // The server's clock, which may be set while it runs.
  TimePoint clock() const { return world_.now() + clock_step_; }
  WallTime wall() const { return VirtualClock::wall_of(clock()); }
  void step_clock(Duration step) { clock_step_ += step; }
  void go_down(Duration duration) {
    ++generation_;
    ++pooled_generation_;
    down_until_ = world_.now() + duration;
  }
  void crash_behind_pooler(Duration held_for) {
    ++generation_;
    held_until_ = world_.now() + held_for;
  }

 private:
  World& world_;
  std::string name_;
  std::uint64_t generation_ = 1;
  std::uint64_t pooled_generation_ = 1;
  TimePoint down_until_{};
  TimePoint held_until_{};
  Duration clock_step_{};
};

enum class Route : std::uint8_t { direct, pooled };

// One client's connection. A broken one stays broken until opened again.
class Connection {
 public:
  explicit Connection(Server& server, Route route = Route::direct)
      : server_(server), route_(route) {}

  bool is_up() const { return open_ && generation_ == generation() && server_.is_up(); }
  void drop() { open_ = false; }

  Status open(std::string_view call) {
    World& world = server_.world();
    drop();
    world.crash_point(call, "before");
    travel();
    wait_for_pooler();
    if (!server_.is_up()) return away();
    generation_ = generation();
    open_ = true;
    world.crash_point(call, "after");
    return {};
  }

  // Carries a request to the server, where `effect` happens at one instant, and carries the reply
  // back. The process and the connection may die before or after that instant.
  template <class Effect>
  auto call(std::string_view name, Effect effect) -> std::invoke_result_t<Effect> {
    World& world = server_.world();
    world.crash_point(name, "before");
    if (!is_up()) return away();
    travel();
    wait_for_pooler();
    if (!is_up() || world.fault(world.options().connection_loss, "connection lost before effect")) {
      drop();
      return away();
    }
    auto result = effect();
    travel();
    world.crash_point(name, "after");
    if (!is_up() || world.fault(world.options().reply_loss, "reply lost after effect")) {
      drop();
      return fail(Errc::in_doubt, server_.name() + ": no reply; check the connection");
    }
    return result;
  }

 private:
  std::uint64_t generation() const {
    return route_ == Route::pooled ? server_.pooled_generation() : server_.generation();
  }
  void wait_for_pooler() {
    World& world = server_.world();
    while (route_ == Route::pooled && world.now() < server_.held_until())
      world.sleep(server_.held_until() - world.now());
  }
  void travel() {
    World& world = server_.world();
    const auto most = static_cast<std::uint64_t>(world.options().latency_max.count());
    world.sleep(Duration(1 + static_cast<Duration::rep>(world.random().below(most))));
  }
  tl::unexpected<Error> away() const {
    return fail(Errc::unavailable, server_.name() + " is away; check the server");
  }

  Server& server_;
  Route route_;
  bool open_ = false;
  std::uint64_t generation_ = 0;
};

}  // namespace dovetail::sim
