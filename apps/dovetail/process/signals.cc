#include "process/signals.h"

#include <pthread.h>
#include <signal.h>

#include <ctime>

namespace dovetail::app {
namespace {

const sigset_t& stop_signals() {
  static const sigset_t signals = [] {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGTERM);
    ::sigaddset(&set, SIGINT);
    // A blocked signal arrives even if it is ignored.
    struct sigaction hangup{};
    const bool is_ignored =
        ::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
    if (!is_ignored) ::sigaddset(&set, SIGHUP);
    return set;
  }();
  return signals;
}

}  // namespace

void block_stop_signals() { ::pthread_sigmask(SIG_BLOCK, &stop_signals(), nullptr); }

std::optional<int> wait_for_stop_signal(Duration wait_max) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait_max);
  timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = std::chrono::nanoseconds(wait_max - seconds).count();
  const int signal = ::sigtimedwait(&stop_signals(), nullptr, &timeout);
  if (signal > 0) return signal;
  return std::nullopt;
}

bool is_urgent(int signal) { return signal != SIGHUP; }

}  // namespace dovetail::app
