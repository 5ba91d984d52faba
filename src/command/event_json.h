// An event as one JSON object, for programs in any language.
#pragma once

#include <string>

#include "dovetail/event.h"

namespace dovetail::command {

// Ends with a line break. Members: id, topic, aggregate_type, aggregate_id, type, content_type,
// aggregate_version (a number), created_at (RFC 3339), headers (an object of strings) and the
// payload: "payload" as text if it is UTF-8, else "payload_base64".
std::string event_json(const Event& event);

std::string base64(std::string_view bytes);

// The last line that a program wrote to standard error: valid UTF-8 without control characters, at
// most 300 bytes. Empty if there is none.
std::string last_line(std::string_view errors);

}  // namespace dovetail::command
