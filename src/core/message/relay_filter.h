// Which events a relay carries.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dovetail/event.h"

namespace dovetail {

// A pattern is that of matches_type(): "order.placed", or "order.*". An event passes if it passes
// every list that is not empty.
struct RelayFilter {
  std::vector<std::string> topics{};  // as the publisher set them
  std::vector<std::string> types{};
  std::vector<std::string> aggregate_types{};
  // (name, pattern). Of each name that is listed, one pattern must match; an event without that
  // header does not pass.
  std::vector<std::pair<std::string, std::string>> headers{};

  bool is_empty() const {
    return topics.empty() && types.empty() && aggregate_types.empty() && headers.empty();
  }
  bool accepts(const Event& event) const;
  // As a database keeps it, for people: {"types":["order.*"],"headers":{"region":["eu*"]}}; empty:
  // everything passes.
  std::string json() const;
};

}  // namespace dovetail
