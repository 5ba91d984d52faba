#include "console/workers.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "host/errand.h"

namespace dovetail::console {

struct Workers::State {
  std::size_t queue_max = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool is_ending = false;
};

Workers::Workers(std::size_t threads, std::size_t queue_max) : state_(std::make_shared<State>()) {
  state_->queue_max = queue_max;
  for (std::size_t i = 0; i < threads; ++i) run_errand([state = state_] { run(*state); });
}

Workers::~Workers() {
  std::deque<std::function<void()>> dropped;
  const std::lock_guard lock(state_->mutex);
  state_->is_ending = true;
  dropped.swap(state_->queue);
  state_->changed.notify_all();
}

bool Workers::hand(std::function<void()> work) {
  const std::lock_guard lock(state_->mutex);
  if (state_->queue.size() >= state_->queue_max) return false;
  state_->queue.push_back(std::move(work));
  state_->changed.notify_one();
  return true;
}

void Workers::run(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&state] { return state.is_ending || !state.queue.empty(); });
    if (state.is_ending) return;
    std::function<void()> work = std::move(state.queue.front());
    state.queue.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // destroys what it owns without the lock
    lock.lock();
  }
}

}  // namespace dovetail::console
