#include "core/operations.h"

namespace dovetail {

std::string_view to_string(Stream stream) {
  switch (stream) {
    case Stream::outbox:
      return "outbox";
    case Stream::mailbox:
      return "mailbox";
    case Stream::outside:
      return "outside";
  }
  return "unknown";
}

std::string_view to_string(EventState state) {
  switch (state) {
    case EventState::pending:
      return "pending";
    case EventState::delivered:
      return "delivered";
    case EventState::parked:
      return "parked";
    case EventState::waiting:
      return "waiting";
    case EventState::discarded:
      return "discarded";
    case EventState::delayed:
      return "delayed";
  }
  return "unknown";
}

Result<EventState> parse_event_state(std::string_view text) {
  for (const EventState state : {EventState::pending, EventState::delivered, EventState::parked,
                                 EventState::waiting, EventState::discarded, EventState::delayed})
    if (text == to_string(state)) return state;
  return fail(Errc::rejected, "\"" + std::string(text.substr(0, 60)) +
                                  "\" is no state of an event; check for pending, delivered, "
                                  "parked, waiting, discarded or delayed");
}

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "unknown";
}

}  // namespace dovetail
