#include "simulation/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/check.h"

namespace dovetail::sim {
namespace {

constexpr std::uint64_t kStepsMax = 3'000'000;
constexpr std::uint64_t kClockReadsMax = 1'000'000;  // between two steps

}  // namespace

World::World(const Options& options, bool tracing)
    : options_(options), tracing_(tracing), random_(options.seed * 0xd1342543de82ef95U + 7) {}

World::~World() { end(); }

bool World::fault(double probability, std::string_view name) {
  if (!faults_on_ || !chance(probability)) return false;
  sometimes(name);
  return true;
}

Actor& World::spawn(std::string name, bool mortal, std::function<void(Actor&)> body) {
  actors_.push_back(std::make_unique<Actor>());
  Actor& actor = *actors_.back();
  actor.name_ = std::move(name);
  actor.mortal_ = mortal;
  actor.fiber_ = std::make_unique<Fiber>([&actor, body = std::move(body)] {
    try {
      body(actor);
    } catch (const Ended&) {  // NOLINT(bugprone-empty-catch): as it was asked to
    }
  });
  actor.waiting_ = true;
  push(now_, &actor, actor.ticket_, {});
  return actor;
}

void World::push(TimePoint at, Actor* actor, std::uint64_t ticket, std::function<void()> call) {
  wakeups_.push(Wakeup{at, ++next_number_, actor, ticket, std::move(call)});
}

void World::at(Duration delay, std::function<void()> call) {
  push(now_ + delay, nullptr, 0, std::move(call));
}

void World::step() {
  Wakeup wakeup = wakeups_.top();
  wakeups_.pop();
  Actor* actor = wakeup.actor;
  if (actor != nullptr && (actor->ticket_ != wakeup.ticket || !actor->waiting_)) return;
  now_ = std::max(now_, wakeup.at);
  ++steps_;
  clock_reads_ = 0;
  if (actor == nullptr) {
    wakeup.call();
    return;
  }
  if (actor->paused_until_ > now_ && !actor->killed_) {
    push(actor->paused_until_, actor, wakeup.ticket, {});
    return;
  }
  actor->waiting_ = false;
  running_ = actor;
  actor->fiber_->resume();
  running_ = nullptr;
}

void World::run(TimePoint until, const std::function<bool()>& done) {
  while (!wakeups_.empty() && wakeups_.top().at <= until && !done()) {
    if (steps_ > kStepsMax) {
      violation("liveness", "the simulation takes steps without end");
      return;
    }
    step();
    if (!violations_.empty()) return;
  }
}

void World::end() {
  ending_ = true;
  for (auto& actor : actors_) {
    if (actor->fiber_->finished()) continue;
    running_ = actor.get();
    // An actor whose destructors wait again is resumed again.
    while (!actor->fiber_->finished()) actor->fiber_->resume();
    running_ = nullptr;
  }
  while (!wakeups_.empty()) wakeups_.pop();
}

Actor& World::current() {
  DOVETAIL_CHECK(running_ != nullptr);
  return *running_;
}

void World::wait_until(TimePoint until) {
  Actor& self = current();
  if (ending_) throw Ended{};
  self.waiting_ = true;
  push(until, &self, ++self.ticket_, {});
  Fiber::suspend();
  if (ending_) throw Ended{};
  if (self.killed_) {
    self.killed_ = false;
    throw Crashed{};
  }
}

void World::wait(WaitQueue& queue, TimePoint until) {
  Actor& self = current();
  struct Leave {
    WaitQueue& queue;
    Actor& actor;
    ~Leave() { std::erase(queue.waiting_, &actor); }
  } leave{queue, self};
  queue.waiting_.push_back(&self);
  wait_until(until);
}

void World::wake(Actor& actor) {
  if (actor.waiting_) push(now_, &actor, actor.ticket_, {});
}

void World::wake_all(WaitQueue& queue) {
  for (Actor* actor : queue.waiting_) wake(*actor);
  queue.waiting_.clear();
}

void World::crash_point(std::string_view call, std::string_view when) {
  Actor& self = current();
  // Rare calls would almost never be hit. Events parked while earlier ones of their key are in
  // flight only cause harm if the process dies just then.
  const bool seldom = call.ends_with(".delivered") || call.ends_with(".release") ||
                      call.ends_with(".close") || call.ends_with(".rollback");
  const double factor = call.ends_with(".park") ? 25 : seldom ? 8 : 1;
  if (!self.mortal_ || !faults_on_ || !chance(options_.crash * factor)) return;
  std::string name = "crash ";
  name.append(when).append(" ").append(call);
  sometimes(name);
  note(name);
  throw Crashed{};
}

void World::crash_now() { throw Crashed{}; }

void World::kill(Actor& actor) {
  if (actor.down_) return;
  actor.killed_ = true;
  actor.paused_until_ = now_;
  wake(actor);
}

void World::pause(Actor& actor, Duration duration) { actor.paused_until_ = now_ + duration; }

void World::request_stop(Actor& actor) {
  actor.stop_.request_stop();
  wake(actor);
}

void World::note(std::string_view what, std::string_view detail, std::int64_t a, std::int64_t b) {
  const auto mix = [this](std::uint64_t value) { hash_ = (hash_ ^ value) * 1099511628211U; };
  mix(static_cast<std::uint64_t>(now_.time_since_epoch().count()));
  for (const char c : what) mix(static_cast<unsigned char>(c));
  for (const char c : detail) mix(static_cast<unsigned char>(c));
  mix(static_cast<std::uint64_t>(a));
  mix(static_cast<std::uint64_t>(b));
  if (!tracing_) return;
  std::printf("%11.6f  %-13s %-26.*s %.*s",
              static_cast<double>(now_.time_since_epoch().count()) / 1e6,
              running_ == nullptr ? "-" : running_->name_.c_str(), static_cast<int>(what.size()),
              what.data(), static_cast<int>(detail.size()), detail.data());
  if (a != 0 || b != 0) std::printf(" %lld", static_cast<long long>(a));
  if (b != 0) std::printf(" %lld", static_cast<long long>(b));
  std::printf("\n");
}

void World::sometimes(std::string_view name) {
  const auto found = counters_.find(name);
  if (found != counters_.end()) {
    ++found->second;
  } else {
    counters_.emplace(std::string(name), 1);
  }
}

void World::violation(std::string_view rule, std::string text) {
  note("VIOLATION", text);
  violations_.emplace_back(std::string(rule), std::move(text));
}

void World::count_clock_read() {
  if (++clock_reads_ <= kClockReadsMax) return;
  violation("liveness", "an actor spins without waiting");
  throw Ended{};
}

}  // namespace dovetail::sim
