// A relay inside a service: it carries the events of the service's outbox to a broker, without a
// second process. The configuration is that of `dovetail run`.
//
//   embedded_relay dovetail.toml [RELAY]
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <stop_token>
#include <string>
#include <thread>

#include "dovetail/relay.h"

namespace {

void show(const dovetail::LogLine& line) {
  const std::string_view level = line.level == dovetail::LogLevel::info ? "info" : "warn";
  std::fprintf(stderr, "%.*s: %.*s: %.*s\n", static_cast<int>(level.size()), level.data(),
               static_cast<int>(line.subject.size()), line.subject.data(),
               static_cast<int>(line.text.size()), line.text.data());
}

// Asks to stop at SIGINT or SIGTERM: what is in flight is finished before. SIGKILL is as safe: the
// next relay sends again what was not confirmed, and the receiver knows it by its id.
void stop_at_signal(const sigset_t& signals, std::stop_source& stop, const std::stop_token& done) {
  const timespec moment{.tv_sec = 0, .tv_nsec = 100'000'000};
  while (!done.stop_requested()) {
    if (sigtimedwait(&signals, nullptr, &moment) > 0) stop.request_stop();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: embedded_relay FILE [RELAY]\n");
    return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // of every thread that starts from here on

  dovetail::EmbeddedRelayOptions options;
  options.file = argv[1];
  if (argc > 2) options.name = argv[2];
  options.log = show;
  auto relay = dovetail::EmbeddedRelay::open(options);
  if (!relay) {
    std::fprintf(stderr, "embedded_relay: %s\n", relay.error().text.c_str());
    return 1;
  }
  std::stop_source stop;
  std::jthread watcher([&](const std::stop_token& done) { stop_at_signal(signals, stop, done); });
  // A service would run it in a thread of its own, beside its other work.
  const dovetail::Status status = (*relay)->run(stop.get_token());
  if (!status) std::fprintf(stderr, "embedded_relay: %s\n", status.error().text.c_str());
  const dovetail::RelayCounts counts = (*relay)->counts();
  std::printf("%llu events delivered, %llu of them known to the receiver\n",
              static_cast<unsigned long long>(counts.delivered),
              static_cast<unsigned long long>(counts.duplicates));
  return status ? 0 : 1;
}
