#include "host/host.h"

#include <pthread.h>
#include <pwd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>

#include "core/check.h"
#include "core/event/event_id.h"

namespace dovetail {

namespace {

Duration read_clock(clockid_t which) {
  timespec time{};
  DOVETAIL_CHECK(clock_gettime(which, &time) == 0);
  return std::chrono::duration_cast<Duration>(std::chrono::seconds(time.tv_sec) +
                                              std::chrono::nanoseconds(time.tv_nsec));
}

// Incremented in the child of every fork, so that a thread recognises bytes that its parent
// buffered.
std::atomic<std::uint64_t> forks{0};

std::uint64_t fork_generation() {
  static const bool watching = [] {
    DOVETAIL_CHECK(pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); }) == 0);
    return true;
  }();
  (void)watching;
  return forks.load(std::memory_order_relaxed);
}

void fill_from_kernel(std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    // Without random bytes ids could repeat, and inboxes would drop events as duplicates.
    DOVETAIL_CHECK(got > 0);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

// A system call for each id would cost more than the id itself.
struct RandomBuffer {
  std::array<std::uint8_t, 256> bytes;
  std::size_t used = 256;
  std::uint64_t generation = 0;
};
thread_local RandomBuffer random_buffer;

struct ThreadIds {
  std::optional<IdGenerator> generator;
  std::uint64_t generation = 0;
};
thread_local ThreadIds thread_ids;

}  // namespace

TimePoint SystemClock::now() { return TimePoint{read_clock(CLOCK_BOOTTIME)}; }

WallTime SystemClock::wall() { return WallTime{read_clock(CLOCK_REALTIME)}; }

void SystemClock::sleep(Duration duration, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  woken.wait_for(lock, stop, duration, [] { return false; });
}

void SystemEntropy::fill(std::span<std::uint8_t> bytes) {
  RandomBuffer& buffer = random_buffer;
  if (bytes.size() > buffer.bytes.size()) return fill_from_kernel(bytes);
  const std::uint64_t generation = fork_generation();
  if (buffer.generation != generation || buffer.bytes.size() - buffer.used < bytes.size()) {
    fill_from_kernel(buffer.bytes);
    buffer.used = 0;
    buffer.generation = generation;
  }
  std::memcpy(bytes.data(), buffer.bytes.data() + buffer.used, bytes.size());
  std::memset(buffer.bytes.data() + buffer.used, 0, bytes.size());
  buffer.used += bytes.size();
}

SystemClock& system_clock() {
  static SystemClock clock;
  return clock;
}

EventId new_event_id() {
  static SystemEntropy entropy;
  ThreadIds& ids = thread_ids;
  const std::uint64_t generation = fork_generation();
  if (!ids.generator || ids.generation != generation) {
    ids.generator.emplace(system_clock(), entropy);
    ids.generation = generation;
  }
  return ids.generator->next();
}

std::string process_label() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return std::string(host.data()) + ":" + std::to_string(getpid());
}

std::string user_name() {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  const uid_t user = geteuid();
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return "user " + std::to_string(user);
}

const std::string& boot_id() {
  static const std::string id = [] {
    std::string line;
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::getline(file, line);
    return line;
  }();
  return id;
}

}  // namespace dovetail
