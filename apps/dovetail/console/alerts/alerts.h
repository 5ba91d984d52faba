// Watches for problems and posts what is news, where the config file has [alerts] to.
#pragma once

#include <memory>
#include <thread>

#include "config/config.h"
#include "console/watch/watcher.h"
#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::console {

class Alerts {
 public:
  // All must outlive it.
  Alerts(const config::Config& config, const Watcher& watcher, Clock& clock)
      : config_(config), watcher_(watcher), clock_(clock) {}

  // rejected: its receiver cannot be used. Nothing happens without [alerts] to.
  Status start();
  void stop();  // waits at most as long as a receiver takes to refuse a connection

 private:
  const config::Config& config_;
  const Watcher& watcher_;
  Clock& clock_;
  std::jthread thread_{};
};

}  // namespace dovetail::console
