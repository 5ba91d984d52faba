// Asks the databases in the background, so that nobody who asks the daemon waits for a database.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "core/clock.h"
#include "overview/overview.h"

namespace dovetail::console {

// Each database has a thread, because a call to one cannot be interrupted. Any thread, except that
// start() and stop() are called by one.
class Watcher {
 public:
  // `every`: the least time between two questions to a database. A slow answer makes it longer.
  Watcher(const config::Config& config, Clock& clock, Duration every);
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher();

  // `keeper` holds the config and the clock until the last question has its answer.
  void start(const std::shared_ptr<const void>& keeper);
  void stop();

  // What is known now. A database that does not answer at all is one that is away.
  app::Overview latest() const;
  // False: some database has not answered yet, and has not failed.
  bool is_complete() const;
  // When the database was last asked with success; empty: never.
  std::optional<TimePoint> answered_at(std::string_view store) const;
  // What the maintenance of a database found wrong with its clock; empty: nothing.
  void note_clock(std::string_view store, std::optional<std::string> wrong);
  // A relay of this process met a full disk, where its report cannot be kept; empty: not any more.
  void note_full_disk(std::string_view relay, std::optional<std::string> error);

 private:
  struct Desk;

  const config::Config& config_;
  Clock& clock_;
  std::shared_ptr<Desk> desk_;
};

}  // namespace dovetail::console
