// Where a consumer's events come from when that is not a database: a broker. Made by the header of
// that broker, such as dovetail/kafka.h.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dovetail/result.h"

namespace dovetail {

class Clock;
class Source;

// Opaque to applications. `make` is called for each session, on the thread that runs it.
struct Origin {
  std::string shown{};  // for people, without secrets
  std::function<Result<std::unique_ptr<Source>>(Clock& clock)> make{};
};

}  // namespace dovetail
