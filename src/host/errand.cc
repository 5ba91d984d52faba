#include "host/errand.h"

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace dovetail {

namespace {

constexpr Duration kAtExit = std::chrono::seconds(20);  // longer than any connect takes

struct Errands {
  std::mutex mutex{};
  std::condition_variable ended{};
  std::size_t left = 0;
};

// Never destroyed, because a thread may outlive every static object.
Errands& errands() {
  static Errands* const all = [] {
    (void)std::atexit([] { (void)wait_for_errands(kAtExit); });
    return new Errands;
  }();
  return *all;
}

}  // namespace

void errand_began() {
  Errands& all = errands();
  const std::lock_guard lock(all.mutex);
  ++all.left;
}

void errand_ended() {
  Errands& all = errands();
  const std::lock_guard lock(all.mutex);
  --all.left;
  all.ended.notify_all();
}

void run_errand(std::function<void()> errand) {
  struct Ended {
    ~Ended() { errand_ended(); }
  };
  errand_began();
  auto ended = std::make_unique<Ended>();  // also if the thread does not start
  std::thread([errand = std::move(errand), ended = std::move(ended)]() mutable {
    errand();
    errand = nullptr;  // destroys what it owns first
  }).detach();
}

std::size_t errands_left() {
  Errands& all = errands();
  const std::lock_guard lock(all.mutex);
  return all.left;
}

bool wait_for_errands(Duration limit) {
  Errands& all = errands();
  std::unique_lock lock(all.mutex);
  return all.ended.wait_for(lock, limit, [&] { return all.left == 0; });
}

}  // namespace dovetail
