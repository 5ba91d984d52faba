#include "demo/stage.h"

#include <algorithm>
#include <cstdio>

#include "commands/output.h"
#include "config/units.h"

namespace dovetail::shop {
namespace {

constexpr std::int64_t kBarWidth = 30;

std::string line_of(const Bar& bar) {
  char name[32];
  std::snprintf(name, sizeof name, "  %-20.20s ", bar.name.c_str());
  std::string line = name;
  if (bar.of > 0) {
    const std::int64_t filled =
        std::clamp<std::int64_t>(bar.value * kBarWidth / bar.of, 0, kBarWidth);
    for (std::int64_t i = 0; i < kBarWidth; ++i) line += i < filled ? "█" : "░";
    char number[24];
    std::snprintf(number, sizeof number, " %9s",
                  config::human_count(static_cast<std::uint64_t>(bar.value)).c_str());
    line += number;
    if (!bar.note.empty()) line += "  ";
  }
  return line + bar.note;
}

}  // namespace

void Stage::tell(std::string_view line) {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
  char time[24];
  std::snprintf(time, sizeof time, "  %5.1f s  ", since.count());
  say(time + std::string(line) + "\n");
}

void Stage::say(std::string_view text) {
  if (silent_) return;
  const std::vector<Bar> bars = last_;
  const bool redraw = drawn_lines_ != 0;
  app::print(erasure() + std::string(text));
  drawn_lines_ = 0;
  if (redraw) draw(bars);
}

void Stage::show(const std::vector<Bar>& bars) {
  if (silent_) return;
  const auto now = std::chrono::steady_clock::now();
  if (moving_) {
    if (drawn_lines_ != 0 && now - last_line_ < std::chrono::milliseconds(100)) return;
    last_line_ = now;
    draw(bars);
    return;
  }
  if (now - last_line_ < std::chrono::seconds(3)) return;
  last_line_ = now;
  std::string line;
  for (const Bar& bar : bars) {
    if (bar.of == 0) continue;
    line += (line.empty() ? "" : ", ") + bar.name + " " +
            config::human_count(static_cast<std::uint64_t>(bar.value));
  }
  tell(line);
}

void Stage::draw(const std::vector<Bar>& bars) {
  // Printed at once, so that it does not flicker.
  std::string text = erasure() + "\n";
  for (const Bar& bar : bars) text += line_of(bar) + "\n";
  app::print(text);
  last_ = bars;
  drawn_lines_ = bars.size() + 1;
}

// Moves above the picture, then erases to the end of the screen.
std::string Stage::erasure() const {
  return drawn_lines_ == 0 ? "" : "\x1b[" + std::to_string(drawn_lines_) + "F\x1b[J";
}

void Stage::clear() {
  app::print(erasure());
  drawn_lines_ = 0;
}

}  // namespace dovetail::shop
