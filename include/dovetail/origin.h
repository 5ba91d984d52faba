// The broker from which a consumer reads its events. The header of that broker makes one, such as
// dovetail/kafka.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "dovetail/result.h"

namespace dovetail {

class Clock;
class Source;

// Opaque to applications. `make` is called once per session, on the session's thread. `call_max`:
// the longest call of the source, except open(), beyond the wait that it is asked for.
struct Origin {
  std::string shown{};  // for people; contains no secrets
  std::function<Result<std::unique_ptr<Source>>(Clock& clock, std::chrono::microseconds call_max)>
      make{};
};

}  // namespace dovetail
