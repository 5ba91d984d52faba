// What an endpoint's answer means to the relay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace dovetail::http {

enum class Meaning : std::uint8_t {
  confirmed,
  failed,    // this event, this time; whether it is to blame, its neighbours show
  rejected,  // this event, as it is, for ever
  busy,      // not now: sent again, no attempt is counted
  shut,      // nothing is accepted from us: the credentials are wrong
};

// `own_path`: the url has fields of the event, so that another event may have other rights.
Meaning meaning_of(long status, bool own_path);

// What to tell an operator about any status that is not 2xx.
std::string reason_of(long status);

// The value of a header Retry-After, seconds or a date. None: it is neither.
std::optional<Duration> parse_retry_after(std::string_view value, WallTime now);

}  // namespace dovetail::http
