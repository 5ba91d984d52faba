// How fast a backlog shrinks, and how long that will take. No I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"

namespace dovetail::app {

struct CatchUp {
  std::uint64_t pending = 0;
  double per_second = 0;  // by which it shrinks: what is delivered less what arrives
  Duration left{0};
};

class Progress {
 public:
  // What was pending of a relay. One that is not heard of any more is forgotten after a while.
  void add(const std::string& relay, std::uint64_t pending, WallTime at);
  // Of a relay with a long backlog that shrinks; empty: it has none, or it is too early to tell.
  std::optional<CatchUp> of(const std::string& relay) const;
  // One line for each of them: "orders catches up: 1,200,000 events are left, ..."
  std::vector<std::string> lines() const;
  static std::string line(const std::string& relay, const CatchUp& catch_up);

 private:
  struct Sample {
    WallTime at;
    std::uint64_t pending;
  };
  std::map<std::string, std::deque<Sample>> samples_;
};

}  // namespace dovetail::app
