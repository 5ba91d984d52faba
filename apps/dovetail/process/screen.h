// A terminal that is drawn again and again, until somebody ends it.
#pragma once

#include <string_view>

#include "core/clock.h"

namespace dovetail::app {

// One at a time. Restores the terminal at the end, and when SIGINT, SIGTERM or SIGHUP come.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Draws over what is there, without flicker; lines below the edge are left out.
  void draw(std::string_view text);
  // True: the person pressed q or ^C, or a signal asks to stop. After a change of size it returns
  // early.
  bool wait(Duration limit);
};

}  // namespace dovetail::app
