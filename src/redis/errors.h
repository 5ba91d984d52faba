// What an error of the Redis server means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/relay/sink.h"
#include "dovetail/result.h"

namespace dovetail::redis {

enum class Reach : std::uint8_t {
  server,   // no client can write now
  stream,   // this stream refuses; an operator can change that
  event,    // this event is never accepted
  unknown,  // an unknown error
};

// What an error reply is about, by its first word.
Reach reach_of(std::string_view reply);

// One line: the server's error without quotes of our arguments, and what to check.
std::string describe(std::string_view reply);

// The error of a command that is not about one event.
Error server_error(std::string_view what, std::string_view reply);

}  // namespace dovetail::redis
