// What an operator decides. Functions of the schema do it and write the audit; see
// src/sql/README.md.
#include "core/check.h"
#include "core/event/utf8.h"
#include "dovetail/postgres.h"
#include "postgres/connection/session.h"
#include "postgres/operate/admin.h"
#include "postgres/operate/statements.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

// Opens a connection for one action.
template <class Action>
auto act(const std::string& url, Action action) -> decltype(action(std::declval<SqlSession&>())) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  PostgresSession session(*connection);
  return action(session);
}

// The only value that a function of the schema returns.
Result<SqlRows> call(const std::string& url, std::string_view sql, const SqlParams& params) {
  return act(url, [&](SqlSession& session) { return session.run(sql, params); });
}

Result<std::uint64_t> count_of(const Result<SqlRows>& called) {
  if (!called) return fail(called.error());
  return static_cast<std::uint64_t>(called->integer(0, 0));
}

}  // namespace

Result<std::vector<ParkedRow>> list_parked(const std::string& url, const ParkedFilter& filter) {
  return act(url, [&](SqlSession& session) {
    return ParkedActions(session, parked_action_statements()).list(filter);
  });
}

Result<std::uint64_t> replay_event(const std::string& url, std::string_view relay,
                                   const EventId& id, std::string_view reason) {
  return act(url, [&](SqlSession& session) {
    return ParkedActions(session, parked_action_statements()).replay(relay, id, reason);
  });
}

Status discard(const std::string& url, std::string_view relay, const EventId& id,
               std::string_view reason) {
  return act(url, [&](SqlSession& session) {
    return ParkedActions(session, parked_action_statements()).discard(relay, id, reason);
  });
}

Result<std::vector<AuditRow>> list_audit(const std::string& url, const AuditFilter& filter) {
  return act(url,
             [&](SqlSession& session) { return read_audit(session, audit_statements(), filter); });
}

Status note_reveal(const std::string& url, const EventId& id, std::string_view reason) {
  const Result<SqlRows> noted =
      call(url, "SELECT dovetail.note_reveal($1, $2)", SqlParams().id(id).text(reason));
  if (!noted) return fail(noted.error());
  return {};
}

Status note_refusal(const std::string& url, std::string_view request, std::uint64_t times,
                    std::string_view reason) {
  const Result<SqlRows> noted = call(url, "SELECT dovetail.note_refusal($1, $2, $3)",
                                     SqlParams()
                                         .text(stored_text(request, kReasonBytesMax))
                                         .integer(static_cast<std::int64_t>(times))
                                         .text(stored_text(reason, kReasonBytesMax)));
  if (!noted) return fail(noted.error());
  return {};
}

Result<std::uint64_t> publish_edited(const std::string& url, const EventId& replaced,
                                     const NewEvent& copy, const EventLimits& limits,
                                     std::string_view reason) {
  DOVETAIL_CHECK(copy.id);
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  PostgresSession session(*connection);
  const auto add = [&]() -> Status {
    const Result<EventId> added = publish(connection->get(), copy, limits);
    if (!added) return fail(added.error());
    return {};
  };
  return ParkedActions(session, parked_action_statements())
      .replace(replaced, *copy.id, reason, add);
}

Result<std::uint64_t> forget_event(const std::string& url, std::string_view consumer,
                                   const EventId& id, std::string_view reason) {
  return count_of(call(url, "SELECT dovetail.forget_event($1, $2, $3)",
                       SqlParams().text(consumer).id(id).text(reason)));
}

Result<std::uint64_t> apply_event(const std::string& url, std::string_view consumer,
                                  const EventId& id, std::string_view reason) {
  return count_of(call(url, "SELECT dovetail.apply_event($1, $2, $3)",
                       SqlParams().text(consumer).id(id).text(reason)));
}

Result<WallTime> remember_since(const std::string& url, WallTime since, std::string_view reason) {
  const Result<SqlRows> before =
      call(url, "SELECT dovetail.remember_since($1, $2)", SqlParams().time(since).text(reason));
  if (!before) return fail(before.error());
  return before->time(0, 0);
}

Result<bool> deliver_again(const std::string& url, std::string_view relay, const EventId& id,
                           std::string_view reason) {
  const Result<SqlRows> done = call(url, "SELECT dovetail.deliver_again($1, $2, $3)",
                                    SqlParams().text(relay).id(id).text(reason));
  if (!done) return fail(done.error());
  return done->boolean(0, 0);
}

Result<std::string> retarget(const std::string& url, const std::string& relay,
                             const std::string& target, const std::string& reason) {
  const Result<SqlRows> before = call(url, "SELECT dovetail.retarget_relay($1, $2, $3)",
                                      SqlParams().text(relay).text(target).text(reason));
  if (!before) return fail(before.error());
  return before->bytes(0, 0);
}

}  // namespace dovetail::postgres
