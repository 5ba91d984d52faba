// A few threads for handlers that may wait for a database, and a bounded queue before them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace dovetail::console {

// Any thread. What runs when this ends goes on by itself, because a call to a database cannot be
// interrupted; so work owns all that it touches.
class Workers {
 public:
  Workers(std::size_t threads, std::size_t queue_max);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();  // does not wait; what is queued is dropped

  // False: the queue is full.
  bool hand(std::function<void()> work);

 private:
  struct State;
  static void run(State& state);
  std::shared_ptr<State> state_;
};

}  // namespace dovetail::console
