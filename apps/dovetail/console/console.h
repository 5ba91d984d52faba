// The console of a daemon: its listener, with everything that it answers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "config/config.h"
#include "console/alerts/alerts.h"
#include "console/roster.h"
#include "console/watch/watcher.h"
#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::console {

// Watches the databases, answers where the config file has [http], and posts alerts where it has
// [alerts] to. Any thread.
class Console {
 public:
  Console(const config::Config& config, const Roster& roster);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();

  // `keeper` holds what handlers use, and the config and the roster, until the last one has ended.
  // rejected: [http] is wrong, or this binary has no HTTP. That the port is taken is no error: it
  // is tried again and again, and relays run meanwhile. Nothing happens after stop().
  Status start(const std::shared_ptr<const void>& keeper);
  // From here on nobody is answered.
  void stop();
  // See Watcher.
  void note_clock(std::string_view store, std::optional<std::string> wrong) {
    watcher_.note_clock(store, std::move(wrong));
  }
  void note_full_disk(std::string_view relay, std::optional<std::string> error) {
    watcher_.note_full_disk(relay, std::move(error));
  }

 private:
  struct Parts;

  const config::Config& config_;
  const Roster& roster_;
  Watcher watcher_;
  std::unique_ptr<Alerts> alerts_{};
  std::unique_ptr<Parts> parts_;
};

}  // namespace dovetail::console
