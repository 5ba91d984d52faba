// What an operator decides: parked events, relays, targets, the inbox. The rules are in src/sql.
#include "core/check.h"
#include "dovetail/sqlite.h"
#include "host/host.h"
#include "sqlite/connection/session.h"
#include "sqlite/operate/admin.h"
#include "sqlite/operate/statements.h"

namespace dovetail::sqlite {

namespace {

constexpr std::string_view kForgetRefusals =
    "DELETE FROM dovetail_audit WHERE what = $1 AND number <= (SELECT number FROM dovetail_audit "
    "WHERE what = $1 ORDER BY number DESC LIMIT 1 OFFSET $2)";

// Opens the file for one action.
template <class Action>
auto act(const std::string& path, Clock& clock, Action action)
    -> decltype(action(std::declval<SqlSession&>())) {
  SqliteSession session(path, Durability::full, clock, boot_id());
  DOVETAIL_TRY(session.connect());
  return action(session);
}

}  // namespace

Result<std::vector<ParkedRow>> list_parked(const std::string& path, const ParkedFilter& filter) {
  return act(path, system_clock(), [&](SqlSession& session) {
    return ParkedActions(session, parked_action_statements()).list(filter);
  });
}

Result<std::uint64_t> replay_event(const std::string& path, std::string_view reader,
                                   const EventId& id, Clock& clock, std::string_view reason) {
  return act(path, clock, [&](SqlSession& session) {
    return ParkedActions(session, parked_action_statements()).replay(reader, id, reason);
  });
}

Status discard(const std::string& path, std::string_view reader, const EventId& id,
               std::string_view reason, Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return ParkedActions(session, parked_action_statements()).discard(reader, id, reason);
  });
}

Result<std::uint64_t> publish_edited(const std::string& path, const EventId& replaced,
                                     const NewEvent& copy, const EventLimits& limits,
                                     std::string_view reason, Clock& clock) {
  DOVETAIL_CHECK(copy.id);
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  SqliteSession session(database->get(), clock, boot_id());
  const auto add = [&]() -> Status {
    const Result<EventId> added = publish(database->get(), copy, limits);
    if (!added) return fail(added.error());
    return {};
  };
  return ParkedActions(session, parked_action_statements())
      .replace(replaced, *copy.id, reason, add);
}

Result<std::vector<AuditRow>> list_audit(const std::string& path, const AuditFilter& filter) {
  return act(path, system_clock(),
             [&](SqlSession& session) { return read_audit(session, audit_statements(), filter); });
}

Status note_reveal(const std::string& path, const EventId& id, std::string_view reason,
                   Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return add_audit(
        session, audit_statements(),
        {.what = "reveal", .subject = id.to_string(), .events = 1, .reason = std::string(reason)});
  });
}

Status note_refusal(const std::string& path, std::string_view request, std::uint64_t times,
                    std::string_view reason, Clock& clock) {
  return act(path, clock, [&](SqlSession& session) -> Status {
    DOVETAIL_TRY(add_audit(session, audit_statements(),
                           {.what = std::string(kRefused),
                            .subject = std::string(request),
                            .events = times,
                            .reason = std::string(reason)}));
    const Result<SqlRows> gone =
        session.run(kForgetRefusals, SqlParams().text(kRefused).integer(kRefusalsKept));
    if (!gone) return fail(gone.error());
    return {};
  });
}

Result<bool> has_owner(const std::string& path, const std::string& relay, Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return RelayControl(session, relay_control_statements()).has_owner(relay);
  });
}

Status write_hold(const std::string& path, const std::string& relay, Hold hold,
                  const std::string& reason, Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return RelayControl(session, relay_control_statements()).hold(relay, hold, reason);
  });
}

Result<SeekCounts> write_seek(const std::string& path, const std::string& relay, const SeekTo& to,
                              const std::string& reason, Hold after, bool dry_run, Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return RelayControl(session, relay_control_statements())
        .seek(relay, to, reason, after, dry_run);
  });
}

Status write_rename(const std::string& path, const std::string& relay, const std::string& new_name,
                    const std::string& reason, Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return RelayControl(session, relay_control_statements()).rename(relay, new_name, reason);
  });
}

Status write_forget(const std::string& path, const std::string& relay, const std::string& reason,
                    Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return RelayControl(session, relay_control_statements()).forget(relay, reason);
  });
}

Result<std::string> retarget(const std::string& path, const std::string& reader,
                             const std::string& target, const std::string& reason, Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return retarget_relay(session, retarget_statements(), reader, target, reason);
  });
}

Result<std::uint64_t> apply_event(const std::string& path, std::string_view consumer,
                                  const EventId& id, std::string_view reason, Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return dovetail::apply_event(session, inbox_action_statements(), consumer, id, reason);
  });
}

Result<WallTime> remember_since(const std::string& path, WallTime since, std::string_view reason,
                                Clock& clock) {
  return act(path, clock, [&](SqlSession& session) {
    return dovetail::remember_since(session, inbox_action_statements(), since, reason);
  });
}

}  // namespace dovetail::sqlite
