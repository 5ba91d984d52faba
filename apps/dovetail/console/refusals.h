// Whom the console refused for lack of a role, for the audit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/clock.h"

namespace dovetail::console {

// Keeps them until a database has them. Only the last ones, in memory and there: who may not write
// must not fill a database by asking. Any thread.
class Refusals {
 public:
  static constexpr std::size_t kKept = 200;
  static constexpr std::size_t kWrittenAtOnce = 20;
  struct One {
    WallTime at{};
    std::string who{};
    std::string what{};  // "POST /api/v1/parked/discard"
    std::string peer{};
  };

  void add(One one);
  // What no database has, the newest first.
  std::deque<One> all() const;
  // Writes them into the audit of the first database that takes them, one line for requests that
  // are the same. What none takes stays.
  void write(const config::Config& config);

 private:
  struct Same {
    One first{};
    std::uint64_t times = 0;
  };
  std::vector<Same> oldest() const;
  void forget(const Same& same);

  mutable std::mutex mutex_;
  std::deque<One> last_;
};

}  // namespace dovetail::console
