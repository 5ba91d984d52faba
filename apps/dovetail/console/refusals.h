// Whom the console refused for lack of a role, for the audit.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>

#include "core/clock.h"

namespace dovetail::console {

// The last ones, in the memory of this process: who may not write must not fill a database by
// asking. Any thread.
class Refusals {
 public:
  static constexpr std::size_t kKept = 200;
  struct One {
    WallTime at{};
    std::string who{};
    std::string what{};  // "POST /api/v1/parked/discard"
    std::string peer{};
  };

  void add(One one);
  std::deque<One> all() const;  // the newest first

 private:
  mutable std::mutex mutex_;
  std::deque<One> last_;
};

}  // namespace dovetail::console
