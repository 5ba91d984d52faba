#include "core/relay/hold.h"

namespace dovetail {

std::string_view to_string(Hold hold) {
  switch (hold) {
    case Hold::none:
      return "";
    case Hold::paused:
      return "paused";
    case Hold::draining:
      return "draining";
    case Hold::drained:
      return "drained";
  }
  return "paused";
}

Hold parse_hold(std::string_view stored) {
  for (const Hold hold : {Hold::none, Hold::draining, Hold::drained})
    if (stored == to_string(hold)) return hold;
  return Hold::paused;
}

}  // namespace dovetail
