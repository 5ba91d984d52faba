#include "core/operations.h"

#include "core/relay/target.h"

namespace dovetail {

std::string_view to_string(SourceKind source) {
  switch (source) {
    case SourceKind::outbox:
      return "outbox";
    case SourceKind::mailbox:
      return "mailbox";
    case SourceKind::mapped:
      return "mapped";
    case SourceKind::broker:
      return "broker";
  }
  return "unknown";
}

std::string_view hold_state(const RelayStatus& relay) {
  const bool has_owner = !relay.owner.empty() && relay.lease_left > Duration::zero();
  if (relay.hold.hold == Hold::paused && has_owner) return "pausing";
  return to_string(relay.hold.hold);
}

std::string_view to_string(EventState state) {
  switch (state) {
    case EventState::pending:
      return "pending";
    case EventState::delivered:
      return "delivered";
    case EventState::skipped:
      return "skipped";
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
  for (const EventState state :
       {EventState::pending, EventState::delivered, EventState::skipped, EventState::parked,
        EventState::waiting, EventState::discarded, EventState::delayed})
    if (text == to_string(state)) return state;
  return fail(Errc::rejected, "\"" + std::string(text.substr(0, 60)) +
                                  "\" is not a state of an event; use pending, delivered, "
                                  "parked, waiting, discarded or delayed");
}

SourceKind parse_source_kind(std::string_view stored) {
  for (const SourceKind source : {SourceKind::outbox, SourceKind::mailbox, SourceKind::mapped})
    if (stored == to_string(source)) return source;
  return SourceKind::broker;
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

Error other_target(std::string_view relay, std::string_view bound, std::string_view wanted) {
  return Error{Errc::rejected,
               "the relay \"" + std::string(relay) + "\" belongs to " + std::string(bound) +
                   " since its first start, not to " + std::string(wanted) +
                   "; events would be split between the two; give the relay another name, or stop "
                   "every process that runs it and run `dovetail relay retarget " +
                   std::string(relay) + "`"};
}

}  // namespace dovetail
