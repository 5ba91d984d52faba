// A server and the connections to it: what can go wrong between a request and its reply.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/clock.h"
#include "dovetail/result.h"
#include "simulation/world.h"

namespace dovetail::sim {

// Up or down; a restart breaks every connection.
class Server {
 public:
  Server(World& world, std::string name) : world_(world), name_(std::move(name)) {}

  World& world() { return world_; }
  const std::string& name() const { return name_; }
  bool is_up() const { return world_.now() >= down_until_; }
  std::uint64_t generation() const { return generation_; }
  void go_down(Duration duration) {
    ++generation_;
    down_until_ = world_.now() + duration;
  }

 private:
  World& world_;
  std::string name_;
  std::uint64_t generation_ = 1;
  TimePoint down_until_{};
};

// One client's connection. A broken one stays broken until it is opened again.
class Connection {
 public:
  explicit Connection(Server& server) : server_(server) {}

  bool is_up() const { return open_ && generation_ == server_.generation() && server_.is_up(); }
  void drop() { open_ = false; }

  Status open(std::string_view call) {
    World& world = server_.world();
    drop();
    world.crash_point(call, "before");
    travel();
    if (!server_.is_up()) return away();
    generation_ = server_.generation();
    open_ = true;
    world.crash_point(call, "after");
    return {};
  }

  // Carries a request to the server, lets `effect` happen there at one instant, and carries the
  // reply back. The process may die on either side of the instant, and so may the connection.
  template <class Effect>
  auto call(std::string_view name, Effect effect) -> std::invoke_result_t<Effect> {
    World& world = server_.world();
    world.crash_point(name, "before");
    if (!is_up()) return away();
    travel();
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
  void travel() {
    World& world = server_.world();
    const auto most = static_cast<std::uint64_t>(world.options().latency_max.count());
    world.sleep(Duration(1 + static_cast<Duration::rep>(world.random().below(most))));
  }
  tl::unexpected<Error> away() const {
    return fail(Errc::unavailable, server_.name() + " is away; check the server");
  }

  Server& server_;
  bool open_ = false;
  std::uint64_t generation_ = 0;
};

}  // namespace dovetail::sim
