// Decides what is news for somebody who gets alerts. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/clock.h"
#include "overview/problems.h"

namespace dovetail::console {

struct Alert {
  enum class State : std::uint8_t { raised, cleared };
  State state = State::raised;
  app::Problem problem{};
  std::size_t open = 0;  // problems that are raised and not cleared; 0: all clear
};

// One thread.
class AlertBook {
 public:
  // `away_max`: how long something that may pass by itself lasts before it is told.
  explicit AlertBook(Duration away_max) : away_max_(away_max) {}

  // What is news since the last call. A problem is cleared when it was gone for a while, so that
  // one that comes and goes is told once.
  std::vector<Alert> news(const std::vector<app::Problem>& problems, WallTime wall, TimePoint now);

 private:
  struct Entry {
    app::Problem problem{};
    TimePoint first_at{};
    TimePoint last_at{};
    bool is_told = false;
  };

  bool is_worth_telling(const Entry& entry, WallTime wall, TimePoint now) const;

  const Duration away_max_;
  std::map<std::string, Entry> entries_{};
  std::size_t open_ = 0;
};

}  // namespace dovetail::console
