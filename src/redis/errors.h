// What an error of the server means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/relay/sink.h"
#include "dovetail/result.h"

namespace dovetail::redis {

enum class Reach : std::uint8_t {
  server,   // nobody can write now
  stream,   // this stream refuses; an operator can change that
  event,    // this event never gets in
  unknown,  // an error that we do not know
};

// Whom an error reply concerns, by its first word.
Reach reach_of(std::string_view reply);

// One line: what the server said, without what it may quote of our arguments, and what to check.
std::string describe(std::string_view reply);

// The error of a command that is not about one event.
Error server_error(std::string_view what, std::string_view reply);

}  // namespace dovetail::redis
