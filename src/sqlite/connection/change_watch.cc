#include "sqlite/connection/change_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace dovetail::sqlite {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(-1); }
  void reset(int number) {
    if (number_ >= 0) ::close(number_);
    number_ = number;
  }
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

}  // namespace

struct ChangeWatch::State {
  Descriptor stop_bell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Descriptor watch;
  std::string name;  // of the file, without its directory

  bool is_ours(const char* changed) const {
    if (std::strncmp(changed, name.c_str(), name.size()) != 0) return false;
    const std::string_view rest = changed + name.size();
    return rest.empty() || rest == "-wal" || rest == "-journal";
  }

  // Reads what the kernel has queued; true if our file is among it.
  bool drain() {
    bool changed = false;
    alignas(inotify_event) std::array<char, 4096> buffer;
    while (watch.valid()) {
      const ssize_t got = ::read(watch.get(), buffer.data(), buffer.size());
      if (got <= 0) break;
      for (ssize_t at = 0; at < got;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        // After an overflow our event may be lost.
        changed |= (event->mask & IN_Q_OVERFLOW) != 0 || (event->len > 0 && is_ours(event->name));
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
    return changed;
  }

  Wake poll_for(Duration wait_max, const std::stop_token& stop, bool listen) {
    const std::stop_callback ring(stop, [this] {
      const std::uint64_t one = 1;
      // A full counter also rings.
      (void)!::write(stop_bell.get(), &one, sizeof one);
    });
    std::array<pollfd, 2> waits{{{stop_bell.get(), POLLIN, 0}, {watch.get(), POLLIN, 0}}};
    const nfds_t count = listen && watch.valid() ? 2 : 1;
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(wait_max).count();
    const timespec limit{static_cast<time_t>(nanoseconds / 1'000'000'000),
                         static_cast<long>(nanoseconds % 1'000'000'000)};
    const int ready = ::ppoll(waits.data(), count, &limit, nullptr);
    if (stop.stop_requested()) return Wake::stopped;
    return ready > 0 && count == 2 && waits[1].revents != 0 ? Wake::changed : Wake::timeout;
  }

  void silence_bell() {
    std::uint64_t rings = 0;
    (void)!::read(stop_bell.get(), &rings, sizeof rings);
  }
};

ChangeWatch::ChangeWatch() : state_(std::make_unique<State>()) {}
ChangeWatch::~ChangeWatch() = default;

bool ChangeWatch::open(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : file.substr(0, slash + 1);
  state_->name = slash == std::string::npos ? file : file.substr(slash + 1);
  state_->watch.reset(file.empty() ? -1 : inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!state_->watch.valid()) return false;
  // Watches the directory, because the WAL and the journal come and go.
  if (inotify_add_watch(state_->watch.get(), directory.c_str(),
                        IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE) < 0) {
    state_->watch.reset(-1);
    return false;
  }
  return true;
}

ChangeWatch::Wake ChangeWatch::wait(Duration wait_max, std::stop_token stop) {
  using Steady = std::chrono::steady_clock;
  state_->silence_bell();
  const Steady::time_point end = Steady::now() + wait_max;
  while (true) {
    const auto left = std::chrono::duration_cast<Duration>(end - Steady::now());
    if (left <= Duration::zero()) return stop.stop_requested() ? Wake::stopped : Wake::timeout;
    const Wake wake = state_->poll_for(left, stop, true);
    if (wake == Wake::stopped) return wake;
    // Other files of the directory change, too.
    if (wake == Wake::changed && state_->drain()) return wake;
  }
}

ChangeWatch::Wake ChangeWatch::pause(Duration duration, std::stop_token stop) {
  state_->silence_bell();
  const Wake wake = state_->poll_for(duration, stop, false);
  state_->drain();
  return wake;
}

}  // namespace dovetail::sqlite
