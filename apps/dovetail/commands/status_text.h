// The overview as people read it in a terminal: the verdict, what is wrong, then the numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "overview/problems.h"

namespace dovetail::app {

struct StatusLook {
  std::optional<std::size_t> width{};  // of the terminal; empty: nothing is cut
  bool has_colour = false;
  std::vector<std::string> progress{};  // lines about what catches up
};

std::string status_text(const Overview& overview, const std::vector<Problem>& problems,
                        const StatusLook& look);

}  // namespace dovetail::app
