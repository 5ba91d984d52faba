#include "simulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace dovetail::sim {
namespace {

constexpr std::size_t kStackBytes = 512 << 10;
constexpr std::size_t kGuardBytes = 4096;

// Later fibers of the thread reuse stacks: a simulation needs a dozen, and there are thousands of
// simulations.
class StackPool {
 public:
  ~StackPool() {
    for (char* stack : free_) munmap(stack - kGuardBytes, kStackBytes + kGuardBytes);
  }
  char* take() {
    if (!free_.empty()) {
      char* stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    DOVETAIL_CHECK(memory != MAP_FAILED);
    DOVETAIL_CHECK(mprotect(memory, kGuardBytes, PROT_NONE) == 0);
    return static_cast<char*>(memory) + kGuardBytes;
  }
  void give_back(char* stack) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack, kStackBytes);
#endif
    free_.push_back(stack);
  }

 private:
  std::vector<char*> free_;
};

thread_local StackPool stack_pool;
thread_local Fiber* current_fiber = nullptr;

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {}

Fiber::~Fiber() {
  DOVETAIL_CHECK(!started_ || finished_);
  if (stack_ != nullptr) stack_pool.give_back(stack_);
#if defined(__SANITIZE_THREAD__)
  if (tsan_fiber_ != nullptr) __tsan_destroy_fiber(tsan_fiber_);
#endif
}

void Fiber::entry(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->resumer_stack_, &self->resumer_stack_size_);
#endif
  self->body_();
  self->finished_ = true;
  self->switch_out(true);
}

void Fiber::resume() {
  DOVETAIL_CHECK(current_fiber == nullptr && !finished_);
  if (!started_) {
    started_ = true;
    stack_ = stack_pool.take();
    DOVETAIL_CHECK(getcontext(&own_) == 0);
    own_.uc_stack.ss_sp = stack_;
    own_.uc_stack.ss_size = kStackBytes;
    own_.uc_link = nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::entry), 2,
                static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
#if defined(__SANITIZE_THREAD__)
    tsan_fiber_ = __tsan_create_fiber(0);
#endif
  }
  current_fiber = this;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  tsan_resumer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
  swapcontext(&resumer_, &own_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  current_fiber = nullptr;
}

void Fiber::suspend() {
  DOVETAIL_CHECK(current_fiber != nullptr);
  current_fiber->switch_out(false);
}

void Fiber::switch_out([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, resumer_stack_,
                                 resumer_stack_size_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_resumer_, 0);
#endif
  swapcontext(&own_, &resumer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &resumer_stack_, &resumer_stack_size_);
#endif
}

}  // namespace dovetail::sim
