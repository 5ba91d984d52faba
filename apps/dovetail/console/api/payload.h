// Payloads: hidden until somebody asks for one, with a reason, which the audit keeps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "console/api/call.h"
#include "console/api/desk.h"

namespace dovetail::console {

// The audit is written first: a payload that cannot be recorded is not shown.
Expected<Json> reveal_payload(const Desk& desk, const Request& request, const Identity& who);

// Publishes a changed copy as a new event with an id that the client chooses, so that a repeated
// request publishes once; and discards the parked one, in the same transaction.
Expected<Json> publish_edited(const Desk& desk, const Request& request, const Identity& who);

// What an operator sends for that.
struct Edit {
  EventId replaced{};
  EventId id{};  // of the new event
  std::string payload{};
  std::string reason{};
};
// `body`: of body_of(). usage: something is missing or has another form.
Expected<Edit> edit_of(const Request& request, const Json& body);

// In the new event: which one it replaces.
inline constexpr std::string_view kReplaces = "dovetail-replaces";
// Those of the body, or else the stored ones, which are encoded; and kReplaces. usage: the body's
// headers are no object of texts.
Expected<std::vector<Header>> edited_headers(const Json& body, std::string_view stored,
                                             const EventId& replaced);

}  // namespace dovetail::console
