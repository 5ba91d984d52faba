#include "dovetail/result.h"

namespace dovetail {

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::unavailable:
      return "unavailable";
    case Errc::in_doubt:
      return "in_doubt";
    case Errc::rejected:
      return "rejected";
    case Errc::failed:
      return "failed";
    case Errc::corrupt:
      return "corrupt";
    case Errc::stopped:
      return "stopped";
  }
  return "unknown";
}

}  // namespace dovetail
