// Tells when a SQLite file may have changed, without polling it.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::sqlite {

// Watches the file, its WAL and its journal with inotify. A commit's bytes come before the commit
// is visible: after a wake-up, check the file a few times. For one thread.
class ChangeWatch {
 public:
  enum class Wake : std::uint8_t { changed, timeout, stopped };

  ChangeWatch();
  ~ChangeWatch();
  ChangeWatch(const ChangeWatch&) = delete;
  ChangeWatch& operator=(const ChangeWatch&) = delete;

  // False: the kernel refuses a watch (too many, or the file system has none). Then wait() only
  // waits.
  bool open(const std::string& file);

  // Waits at most `wait_max`; returns at once when `stop` is requested.
  Wake wait(Duration wait_max, std::stop_token stop);
  // Waits without watching, and drops changes of that time.
  Wake pause(Duration duration, std::stop_token stop);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::sqlite
