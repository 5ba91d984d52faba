// The demo's output: lines of the story, and below them, on a terminal, a moving
// picture.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::shop {

struct Bar {
  std::string name;
  std::int64_t value = 0;
  std::int64_t of = 0;
  std::string note{};
};

// One thread. `silent`: no output; `moving`: draws bars and redraws them.
class Stage {
 public:
  Stage(bool silent, bool moving) : silent_(silent), moving_(moving) {}
  ~Stage() { clear(); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // A line of the story, with the time since the start.
  void tell(std::string_view line);
  // Text without a time.
  void say(std::string_view text);
  // The current picture. Without a terminal it becomes a line every few seconds.
  void show(const std::vector<Bar>& bars);
  // Removes the picture.
  void clear();

 private:
  void draw(const std::vector<Bar>& bars);
  std::string erasure() const;

  bool silent_;
  bool moving_;
  std::size_t drawn_lines_ = 0;
  std::vector<Bar> last_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_line_ = start_;
};

}  // namespace dovetail::shop
