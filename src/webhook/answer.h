// What the answer of an endpoint means for the relay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace dovetail::http {

enum class Meaning : std::uint8_t {
  confirmed,
  failed,    // this event failed now; the events around it show the cause
  rejected,  // this event is never accepted
  busy,      // not now: send it again; no attempt counts
  shut,      // nothing of ours is accepted: the credentials are wrong
};

// `own_path`: the url has fields of the event, so other events may have other rights.
Meaning meaning_of(long status, bool own_path);

// The text for an operator about a status other than 2xx.
std::string reason_of(long status);

// The value of the header Retry-After: seconds or a date. Empty: neither.
std::optional<Duration> parse_retry_after(std::string_view value, WallTime now);

}  // namespace dovetail::http
