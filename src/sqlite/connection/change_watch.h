// Tells when a SQLite file may have changed, without asking it over and over.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::sqlite {

// Watches the file, its WAL and its journal through inotify. The bytes of a commit are seen before
// the commit is visible to readers: after a wake-up ask the file a few times. One thread.
class ChangeWatch {
 public:
  enum class Wake : std::uint8_t { changed, timeout, stopped };

  ChangeWatch();
  ~ChangeWatch();
  ChangeWatch(const ChangeWatch&) = delete;
  ChangeWatch& operator=(const ChangeWatch&) = delete;

  // False: the kernel gives no watch (too many, or a file system without them); wait() then only
  // waits.
  bool open(const std::string& file);

  // At most `wait_max`; at once when `stop` is requested.
  Wake wait(Duration wait_max, std::stop_token stop);
  // Pauses without listening to the file, then forgets what it said meanwhile.
  Wake pause(Duration duration, std::stop_token stop);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::sqlite
