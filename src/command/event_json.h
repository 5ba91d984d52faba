// An event as one JSON object, for programs in any language.
#pragma once

#include <string>

#include "dovetail/event.h"

namespace dovetail::command {

// With a line break behind it. Members: id, topic, aggregate_type, aggregate_id, type,
// content_type, aggregate_version (a number), created_at (RFC 3339), headers (an object of strings)
// and the payload: a text in "payload" where it is UTF-8, else its bytes in "payload_base64".
std::string event_json(const Event& event);

std::string base64(std::string_view bytes);

// The last line of what a program wrote to its standard error: valid UTF-8 without control
// characters, at most 300 bytes. Empty when there is none.
std::string last_line(std::string_view errors);

}  // namespace dovetail::command
