// A function with its own stack that can stop in the middle and continue later. The simulator runs
// the relay, a plain blocking loop, in a fiber, so that one thread can interleave many relays in an
// order that a seed decides.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace dovetail::sim {

// A fiber stays on the thread that first resumed it. Its body must not throw.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();  // REQUIRES: never resumed, or finished
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it suspends or finishes.
  void resume();
  // Inside a fiber: returns to the caller of resume().
  static void suspend();
  bool finished() const { return finished_; }

 private:
  static void entry(unsigned low, unsigned high);
  void switch_out(bool for_good);

  std::function<void()> body_;
  bool started_ = false;
  bool finished_ = false;
  char* stack_ = nullptr;
  ucontext_t own_{};
  ucontext_t resumer_{};
  // What sanitizers need at a change of stacks.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* resumer_stack_ = nullptr;
  [[maybe_unused]] std::size_t resumer_stack_size_ = 0;
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
  [[maybe_unused]] void* tsan_resumer_ = nullptr;
};

}  // namespace dovetail::sim
