// What an operator sees and decides about parked events.
#include <algorithm>

#include "postgres/connection/connection.h"
#include "postgres/operate/admin.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

constexpr std::size_t kReasonBytesMax = 2000;

// Of the parameters $1 to $5, which add_filter() gives.
constexpr std::string_view kMatches =
    "($1 = '' OR p.relay = $1) AND ($2 = '' OR p.aggregate_id = $2) AND ($3 = '' OR "
    "p.aggregate_type = $3) AND ($4 = '' OR p.type = $4) AND ($5 = '' OR "
    "pg_catalog.strpos(p.reason, $5) > 0)";

// $1 relay, $2 id or null, $3 key, $4 aggregate type, $5 type, $6 part of the reason. Both write
// the audit, in the name of the login.
constexpr std::string_view kReplay = "SELECT dovetail.replay_parked($1, $2, $3, $4, $5, $6, $7)";
constexpr std::string_view kDiscard =
    "SELECT dovetail.discard_parked($1, $2, $3, $4, $5, $6, $7, $8, $9)";

struct Parked {
  std::string relay;
  std::string state;
  bool head = false;
  bool finished = false;
  std::string aggregate_type;
  std::string aggregate_id;
};

Params& add_filter(Params& params, const ParkedFilter& filter) {
  return params.text(filter.relay)
      .text(filter.key)
      .text(filter.aggregate_type)
      .text(filter.type)
      .text(filter.reason_contains);
}

// What a decision is about: one event, or all that match.
Params subject_of(std::string_view relay, const EventId* id, const ParkedFilter& filter) {
  Params params;
  params.text(relay);
  id == nullptr ? params.null() : params.uuid(*id);
  params.text(filter.key)
      .text(filter.aggregate_type)
      .text(filter.type)
      .text(filter.reason_contains);
  return params;
}

Status check_decision(const Decision& decision, bool needs_reason) {
  if (needs_reason && decision.reason.find_first_not_of(" \t\r\n") == std::string::npos)
    return fail(Errc::rejected,
                "a discard needs a reason, which is recorded; say why you give up the event");
  if (decision.reason.size() > kReasonBytesMax)
    return fail(Errc::rejected, "the reason has more than 2000 bytes; shorten it");
  return {};
}

Result<Connection> open_store(const std::string& url) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return connection;
  DOVETAIL_TRY(check_schema(*connection));
  return connection;
}

Result<std::uint64_t> decide(Connection& connection, std::string_view sql, const Params& params) {
  const Result<Rows> done = connection.query(sql, params);
  if (!done) return fail(done.error());
  return static_cast<std::uint64_t>(done->int8(0, 0));
}

Result<std::vector<Parked>> find_queued(Connection& connection, std::string_view relay,
                                        const EventId& id) {
  const Result<Rows> rows = connection.query(
      "SELECT consumer, aggregate_type, aggregate_id FROM dovetail.queue_parked WHERE id = $1 AND "
      "($2 = '' OR consumer = $2) ORDER BY consumer",
      Params().uuid(id).text(relay));
  if (!rows) return fail(rows.error());
  std::vector<Parked> found;
  for (std::size_t i = 0; i < rows->size(); ++i)
    found.push_back(Parked{std::string(rows->text(i, 0)), "parked", true, false,
                           std::string(rows->text(i, 1)), std::string(rows->text(i, 2))});
  return found;
}

// All unfinished rows of the event, one for each relay that parked it. Those of queues come first.
Result<std::vector<Parked>> find(Connection& connection, std::string_view relay,
                                 const EventId& id) {
  const Result<Rows> rows = connection.query(
      "SELECT relay, state, at_head, finished_at IS NOT NULL, aggregate_type, aggregate_id FROM "
      "dovetail.parked WHERE id = $1 AND ($2 = '' OR relay = $2) ORDER BY finished_at IS NOT NULL, "
      "relay",
      Params().uuid(id).text(relay));
  if (!rows) return fail(rows.error());
  Result<std::vector<Parked>> queued = find_queued(connection, relay, id);
  if (!queued) return queued;
  std::vector<Parked> found = std::move(*queued);
  for (std::size_t i = 0; i < rows->size(); ++i)
    found.push_back(Parked{std::string(rows->text(i, 0)), std::string(rows->text(i, 1)),
                           rows->boolean(i, 2), rows->boolean(i, 3), std::string(rows->text(i, 4)),
                           std::string(rows->text(i, 5))});
  const std::string whose =
      relay.empty() ? std::string() : " for relay \"" + std::string(relay) + "\"";
  if (found.empty())
    return fail(Errc::rejected, "the event " + id.to_string() + " is not parked" + whose +
                                    "; check the id with `dovetail parked`");
  if (found.front().finished)
    return fail(Errc::rejected, "the event " + id.to_string() + " is already finished: it was " +
                                    found.front().state + "; nothing is left to do");
  std::erase_if(found, [](const Parked& row) { return row.finished; });
  return found;
}

// Names the event that has to be decided first.
Error behind_another(Connection& connection, const EventId& id, const Parked& row) {
  std::string head = "another event";
  const Result<Rows> rows = connection.query(
      "SELECT id FROM dovetail.parked WHERE relay = $1 AND aggregate_type = $2 AND aggregate_id = "
      "$3 AND at_head",
      Params().text(row.relay).text(row.aggregate_type).text(row.aggregate_id));
  if (rows && !rows->empty()) head = rows->uuid(0, 0).to_string();
  return Error{Errc::rejected,
               "the event " + id.to_string() + " waits behind " + head + " of the key " +
                   row.aggregate_type + "/" + row.aggregate_id +
                   "; replay or discard that one first, then this one follows automatically"};
}

Error nothing_of_key(std::string_view aggregate_id) {
  return Error{Errc::rejected, "no event of the key \"" + std::string(aggregate_id.substr(0, 100)) +
                                   "\" is parked; check the key with `dovetail parked`"};
}

// Between our look and the decision a relay, a worker or another operator was there.
Error changed_meanwhile(const EventId& id) {
  return Error{Errc::rejected, "the event " + id.to_string() +
                                   " was changed at the same moment; list it again with "
                                   "`dovetail parked`, and decide again"};
}

Result<std::uint64_t> replay(const std::string& url, const ParkedFilter& filter,
                             const Decision& decision, bool of_key) {
  DOVETAIL_TRY(check_decision(decision, false));
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<std::uint64_t> count =
      decide(*connection, kReplay, subject_of(filter.relay, nullptr, filter).text(decision.reason));
  if (count && *count == 0 && of_key) return fail(nothing_of_key(filter.key));
  return count;
}

Result<std::uint64_t> give_up(const std::string& url, const ParkedFilter& filter,
                              const Decision& decision, bool of_key) {
  DOVETAIL_TRY(check_decision(decision, true));
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<std::uint64_t> count = decide(*connection, kDiscard,
                                             subject_of(filter.relay, nullptr, filter)
                                                 .boolean(filter.heads_only)
                                                 .boolean(of_key && !filter.heads_only)
                                                 .text(decision.reason));
  if (count && *count == 0 && of_key) return fail(nothing_of_key(filter.key));
  return count;
}

Result<ParkedFilter> key_filter(std::string_view relay, std::string_view aggregate_type,
                                std::string_view aggregate_id) {
  if (aggregate_id.empty())
    return fail(Errc::rejected, "the key is empty; give the aggregate id of the parked event");
  ParkedFilter filter;
  filter.relay = std::string(relay);
  filter.aggregate_type = std::string(aggregate_type);
  filter.key = std::string(aggregate_id);
  return filter;
}

}  // namespace

Result<std::vector<ParkedRow>> list_parked(const std::string& url, const ParkedFilter& filter) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  std::string sql =
      "SELECT number, relay, id, position, state, at_head, attempts, reason, note, topic, "
      "aggregate_type, aggregate_id, type, bytes, parked_at, retry_at, coalesce(finished_at, "
      "'epoch') FROM (SELECT number, relay, id, position, state, at_head, attempts, reason, note, "
      "topic, aggregate_type, aggregate_id, type, octet_length(payload) AS bytes, parked_at, "
      "retry_at, finished_at FROM dovetail.parked UNION ALL SELECT number, consumer, id, position, "
      "'parked', true, attempts, reason, '', topic, aggregate_type, aggregate_id, type, "
      "payload_bytes, parked_at, parked_at, NULL FROM dovetail.queue_parked) AS p WHERE number > "
      "$6 AND " +
      std::string(kMatches);
  if (!filter.id.empty()) sql += " AND id = $8";
  if (!filter.with_finished) sql += " AND finished_at IS NULL";
  if (filter.heads_only) sql += " AND at_head";
  sql += " ORDER BY number LIMIT $7";
  Params params;
  add_filter(params, filter).int8(filter.after).int8(static_cast<std::int64_t>(filter.limit));
  if (!filter.id.empty()) {
    const Result<EventId> id = EventId::parse(filter.id);
    if (!id) return fail(id.error());
    params.uuid(*id);
  }
  const Result<Rows> rows = connection->query(sql, params);
  if (!rows) return fail(rows.error());
  std::vector<ParkedRow> found;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    ParkedRow& parked = found.emplace_back();
    parked.number = rows->int8(i, 0);
    parked.relay = std::string(rows->text(i, 1));
    parked.id = rows->uuid(i, 2);
    parked.position = rows->int8(i, 3);
    parked.state = parse_event_state(rows->text(i, 4)).value_or(EventState::parked);
    parked.head = rows->boolean(i, 5);
    parked.attempts = static_cast<std::uint32_t>(rows->int4(i, 6));
    parked.reason = std::string(rows->text(i, 7));
    parked.note = std::string(rows->text(i, 8));
    parked.topic = std::string(rows->text(i, 9));
    parked.aggregate_type = std::string(rows->text(i, 10));
    parked.aggregate_id = std::string(rows->text(i, 11));
    parked.type = std::string(rows->text(i, 12));
    parked.payload_bytes = static_cast<std::uint64_t>(rows->int4(i, 13));
    parked.parked_at = rows->timestamptz(i, 14);
    parked.retry_at = rows->timestamptz(i, 15);
    parked.finished_at = rows->timestamptz(i, 16);
  }
  return found;
}

Result<std::uint64_t> replay_event(const std::string& url, std::string_view relay,
                                   const EventId& id, const Decision& decision) {
  DOVETAIL_TRY(check_decision(decision, false));
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<std::vector<Parked>> rows = find(*connection, relay, id);
  if (!rows) return fail(rows.error());
  for (const Parked& row : *rows)
    if (!row.head) return fail(behind_another(*connection, id, row));
  const Result<std::uint64_t> count =
      decide(*connection, kReplay, subject_of(relay, &id, {}).text(decision.reason));
  if (count && *count == 0) return fail(changed_meanwhile(id));
  return count;
}

Result<std::uint64_t> forget_event(const std::string& url, std::string_view consumer,
                                   const EventId& id, std::string_view reason) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query("SELECT dovetail.forget_event($1, $2, $3)",
                                              Params().text(consumer).uuid(id).text(reason));
  if (!rows) return fail(rows.error());
  return static_cast<std::uint64_t>(rows->int8(0, 0));
}

Result<std::uint64_t> apply_event(const std::string& url, std::string_view consumer,
                                  const EventId& id, std::string_view reason) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query("SELECT dovetail.apply_event($1, $2, $3)",
                                              Params().text(consumer).uuid(id).text(reason));
  if (!rows) return fail(rows.error());
  return static_cast<std::uint64_t>(rows->int8(0, 0));
}

Result<WallTime> remember_since(const std::string& url, WallTime since, std::string_view reason) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query("SELECT dovetail.remember_since($1, $2)",
                                              Params().timestamptz(since).text(reason));
  if (!rows) return fail(rows.error());
  return rows->timestamptz(0, 0);
}

Result<bool> deliver_again(const std::string& url, std::string_view relay, const EventId& id,
                           std::string_view reason) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query("SELECT dovetail.deliver_again($1, $2, $3)",
                                              Params().text(relay).uuid(id).text(reason));
  if (!rows) return fail(rows.error());
  return rows->boolean(0, 0);
}

Result<std::string> retarget(const std::string& url, const std::string& relay,
                             const std::string& target, const std::string& reason) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query("SELECT dovetail.retarget_relay($1, $2, $3)",
                                              Params().text(relay).text(target).text(reason));
  if (!rows) return fail(rows.error());
  return std::string(rows->text(0, 0));
}

Result<std::uint64_t> replay_key(const std::string& url, std::string_view relay,
                                 std::string_view aggregate_type, std::string_view aggregate_id,
                                 const Decision& decision) {
  const Result<ParkedFilter> filter = key_filter(relay, aggregate_type, aggregate_id);
  if (!filter) return fail(filter.error());
  return replay(url, *filter, decision, true);
}

Result<std::uint64_t> replay_matching(const std::string& url, const ParkedFilter& filter,
                                      const Decision& decision) {
  return replay(url, filter, decision, false);
}

Status discard(const std::string& url, std::string_view relay, const EventId& id,
               const Decision& decision) {
  DOVETAIL_TRY(check_decision(decision, true));
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<std::vector<Parked>> rows = find(*connection, relay, id);
  if (!rows) return fail(rows.error());
  if (rows->size() > 1)
    return fail(Errc::rejected, "several relays parked the event " + id.to_string() +
                                    "; name the relay that should give it up");
  const Parked& row = rows->front();
  if (!row.head) return fail(behind_another(*connection, id, row));
  const Result<std::uint64_t> count =
      decide(*connection, kDiscard,
             subject_of(row.relay, &id, {}).boolean(true).boolean(false).text(decision.reason));
  if (!count) return fail(count.error());
  if (*count == 0) return fail(changed_meanwhile(id));
  return {};
}

Result<std::uint64_t> discard_key(const std::string& url, std::string_view relay,
                                  std::string_view aggregate_type, std::string_view aggregate_id,
                                  const Decision& decision) {
  const Result<ParkedFilter> filter = key_filter(relay, aggregate_type, aggregate_id);
  if (!filter) return fail(filter.error());
  return give_up(url, *filter, decision, true);
}

Result<std::uint64_t> discard_matching(const std::string& url, const ParkedFilter& filter,
                                       const Decision& decision) {
  return give_up(url, filter, decision, false);
}

}  // namespace dovetail::postgres
