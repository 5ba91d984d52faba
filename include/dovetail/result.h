// Errors as values. There are six codes, each named after what the relay does about it. The text
// says what happened and ends with what to check.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace dovetail {

enum class Errc : std::uint8_t {
  unavailable,  // not now: wait and try again; nothing happened, and no attempt counts
  in_doubt,     // it may have happened or not: do it again, the event id makes that harmless
  rejected,     // it will never succeed as it is: park the event, or tell the caller
  failed,       // it did not work this time: counts as an attempt; a handler's usual error
  corrupt,      // stored data is damaged or unknown: stop loudly
  stopped,      // asked to stop, or not the owner any more: drop what is in memory and leave
};

std::string_view to_string(Errc code);

struct Error {
  Errc code;
  std::string text;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Errc code, std::string text) {
  return tl::unexpected<Error>(Error{code, std::move(text)});
}
inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace dovetail

// Returns the error of a Status or Result to the caller; continues if there is none.
#define DOVETAIL_TRY(expression)                                       \
  do {                                                                 \
    if (auto dovetail_try_status = (expression); !dovetail_try_status) \
      return ::dovetail::fail(std::move(dovetail_try_status.error())); \
  } while (false)
