// What an operator sees and decides about parked events.
#include <algorithm>
#include <map>

#include "postgres/admin.h"
#include "postgres/connection.h"
#include "postgres/schema.h"

namespace dovetail::postgres {

namespace {

constexpr std::size_t kReasonBytesMax = 2000;

// Of the parameters $1 to $5, which add_filter() gives.
constexpr std::string_view kMatches =
    "($1 = '' OR p.relay = $1) AND ($2 = '' OR p.aggregate_id = $2) AND ($3 = '' OR "
    "p.aggregate_type = $3) AND ($4 = '' OR p.type = $4) AND ($5 = '' OR "
    "pg_catalog.strpos(p.reason, $5) > 0)";

constexpr std::string_view kReplay =
    "UPDATE dovetail.parked AS p SET state = 'waiting', attempts = 0, retry_at = "
    "pg_catalog.clock_timestamp(), note = 'replay asked for' WHERE p.at_head AND p.finished_at IS "
    "NULL AND ";

// The parked events of queues, with the columns that the filter looks at.
constexpr std::string_view kQueued =
    "ARRAY(SELECT p.number FROM (SELECT q.*, q.consumer AS relay FROM dovetail.queue_parked AS q) "
    "AS p WHERE ";

// `note` comes first among the parameters that follow the filter's.
constexpr std::string_view kDiscard =
    "UPDATE dovetail.parked AS p SET state = 'discarded', at_head = false, finished_at = "
    "pg_catalog.clock_timestamp(), note = $6 WHERE p.finished_at IS NULL AND ";

constexpr std::string_view kKeys = " RETURNING p.relay, p.aggregate_type, p.aggregate_id";

struct Parked {
  std::int64_t number = 0;
  std::string relay;
  std::string state;
  bool head = false;
  bool finished = false;
  std::string aggregate_type;
  std::string aggregate_id;
  bool queued = false;  // it is in a queue, where a row needs functions to be changed
};

Params& add_filter(Params& params, const ParkedFilter& filter) {
  return params.text(filter.reader)
      .text(filter.key)
      .text(filter.aggregate_type)
      .text(filter.type)
      .text(filter.reason_contains);
}

std::string shown(const ParkedFilter& filter) {
  std::string text;
  const std::pair<const char*, const std::string*> parts[] = {
      {"key", &filter.key},
      {"aggregate_type", &filter.aggregate_type},
      {"type", &filter.type},
      {"reason contains", &filter.reason_contains}};
  for (const auto& [name, value] : parts)
    if (!value->empty())
      text += (text.empty() ? "" : ", ") + std::string(name) + " \"" + *value + "\"";
  return text.empty() ? "all" : text;
}

Status check_decision(const Decision& decision, bool needs_reason) {
  if (needs_reason && decision.reason.find_first_not_of(" \t\r\n") == std::string::npos)
    return fail(Errc::rejected,
                "a discard needs a reason, which is kept; say why the event is given up");
  if (decision.reason.size() > kReasonBytesMax || decision.who.size() > 255)
    return fail(Errc::rejected, "the reason may have 2000 bytes and the name 255; shorten them");
  return {};
}

Result<Connection> open_store(const std::string& url) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return connection;
  DOVETAIL_TRY(check_schema(*connection));
  return connection;
}

Status write_audit(Connection& connection, const Decision& decision, std::string_view what,
                   std::string_view relay, std::string_view subject, std::uint64_t events) {
  const Result<Rows> written = connection.query(
      "INSERT INTO dovetail.audit (who, what, relay, subject, events, reason) VALUES "
      "(coalesce(nullif($1, ''), session_user::text), $2, $3, $4, $5, $6)",
      Params()
          .text(decision.who)
          .text(what)
          .text(relay)
          .text(subject)
          .int8(static_cast<std::int64_t>(events))
          .text(decision.reason));
  if (!written) return fail(written.error());
  return {};
}

// After rows were finished, given as relay, aggregate_type and aggregate_id.
Status refresh_heads(Connection& connection, const Rows& finished) {
  struct Keys {
    std::vector<std::string_view> types;
    std::vector<std::string_view> ids;
  };
  std::map<std::string_view, Keys> relays;
  for (std::size_t i = 0; i < finished.size(); ++i) {
    Keys& keys = relays[finished.text(i, 0)];
    keys.types.push_back(finished.text(i, 1));
    keys.ids.push_back(finished.text(i, 2));
  }
  for (const auto& [relay, keys] : relays) {
    const Result<Rows> done =
        connection.query("SELECT dovetail.refresh_heads($1, $2, $3)",
                         Params().text(relay).text_array(keys.types).text_array(keys.ids));
    if (!done) return fail(done.error());
  }
  return {};
}

Result<std::vector<Parked>> find_queued(Connection& connection, std::string_view relay,
                                        const EventId& id) {
  const Result<Rows> rows = connection.query(
      "SELECT number, consumer, aggregate_type, aggregate_id FROM dovetail.queue_parked WHERE id = "
      "$1 AND ($2 = '' OR consumer = $2) ORDER BY consumer",
      Params().uuid(id).text(relay));
  if (!rows) return fail(rows.error());
  std::vector<Parked> found;
  for (std::size_t i = 0; i < rows->size(); ++i)
    found.push_back(Parked{rows->int8(i, 0), std::string(rows->text(i, 1)), "parked", true, false,
                           std::string(rows->text(i, 2)), std::string(rows->text(i, 3)), true});
  return found;
}

// All unfinished rows of the event, one for each relay that parked it; locked. Those of queues come
// first.
Result<std::vector<Parked>> find(Connection& connection, std::string_view relay,
                                 const EventId& id) {
  const Result<Rows> rows = connection.query(
      "SELECT number, relay, state, at_head, finished_at IS NOT NULL, aggregate_type, aggregate_id "
      "FROM dovetail.parked WHERE id = $1 AND ($2 = '' OR relay = $2) ORDER BY finished_at IS NOT "
      "NULL, relay FOR UPDATE",
      Params().uuid(id).text(relay));
  if (!rows) return fail(rows.error());
  Result<std::vector<Parked>> queued = find_queued(connection, relay, id);
  if (!queued) return queued;
  std::vector<Parked> found = std::move(*queued);
  for (std::size_t i = 0; i < rows->size(); ++i)
    found.push_back(Parked{rows->int8(i, 0), std::string(rows->text(i, 1)),
                           std::string(rows->text(i, 2)), rows->boolean(i, 3), rows->boolean(i, 4),
                           std::string(rows->text(i, 5)), std::string(rows->text(i, 6))});
  const std::string whose =
      relay.empty() ? std::string() : " for relay \"" + std::string(relay) + "\"";
  if (found.empty())
    return fail(Errc::rejected, "the event " + id.to_string() + " is not parked" + whose +
                                    "; check the id with `dovetail parked`");
  if (found.front().finished)
    return fail(Errc::rejected, "the event " + id.to_string() + " is finished already: it was " +
                                    found.front().state + "; there is nothing left to do");
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
               "the event " + id.to_string() + " stands behind " + head + " on key " +
                   row.aggregate_type + "/" + row.aggregate_id +
                   "; replay or discard that one first, this one then follows by itself"};
}

Error nothing_of_key(std::string_view aggregate_id) {
  return Error{Errc::rejected, "nothing of key \"" + std::string(aggregate_id.substr(0, 100)) +
                                   "\" is parked; check the key with `dovetail parked`"};
}

Result<std::uint64_t> replay(const std::string& url, const ParkedFilter& filter,
                             const Decision& decision, bool of_key) {
  DOVETAIL_TRY(check_decision(decision, false));
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  Result<Transaction> transaction = Transaction::begin(*connection);
  if (!transaction) return fail(transaction.error());
  Params params;
  const Result<Rows> done =
      connection->query(std::string(kReplay) + std::string(kMatches), add_filter(params, filter));
  if (!done) return fail(done.error());
  Params same;
  const Result<Rows> queued = connection->query(
      "SELECT dovetail.queue_replay(" + std::string(kQueued) + std::string(kMatches) + "))",
      add_filter(same, filter));
  if (!queued) return fail(queued.error());
  const auto count = static_cast<std::uint64_t>(done->affected() + queued->int8(0, 0));
  if (count == 0 && of_key) return fail(nothing_of_key(filter.key));
  DOVETAIL_TRY(write_audit(*connection, decision, "replay", filter.reader, shown(filter), count));
  DOVETAIL_TRY(transaction->commit());
  return count;
}

Result<std::uint64_t> give_up(const std::string& url, const ParkedFilter& filter,
                              const Decision& decision, bool of_key) {
  DOVETAIL_TRY(check_decision(decision, true));
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  Result<Transaction> transaction = Transaction::begin(*connection);
  if (!transaction) return fail(transaction.error());
  Params params;
  add_filter(params, filter).text(decision.reason);
  const Result<Rows> done =
      connection->query(std::string(kDiscard) + std::string(kMatches) +
                            (filter.heads_only ? " AND p.at_head" : "") + std::string(kKeys),
                        params);
  if (!done) return fail(done.error());
  const Result<Rows> queued =
      connection->query("SELECT dovetail.queue_discard(" + std::string(kQueued) +
                            std::string(kMatches) + "), $7, $6)",
                        params.boolean(of_key && !filter.heads_only));
  if (!queued) return fail(queued.error());
  const std::uint64_t count = done->size() + static_cast<std::uint64_t>(queued->int8(0, 0));
  if (count == 0 && of_key) return fail(nothing_of_key(filter.key));
  DOVETAIL_TRY(refresh_heads(*connection, *done));
  DOVETAIL_TRY(write_audit(*connection, decision, "discard", filter.reader, shown(filter), count));
  DOVETAIL_TRY(transaction->commit());
  return count;
}

Result<ParkedFilter> key_filter(std::string_view relay, std::string_view aggregate_type,
                                std::string_view aggregate_id) {
  if (aggregate_id.empty())
    return fail(Errc::rejected, "the key is empty; name the aggregate id that is parked");
  ParkedFilter filter;
  filter.reader = std::string(relay);
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
      "payload_length, parked_at, parked_at, NULL FROM dovetail.queue_parked) AS p WHERE number > "
      "$6 AND " +
      std::string(kMatches);
  if (!filter.with_finished) sql += " AND finished_at IS NULL";
  if (filter.heads_only) sql += " AND at_head";
  sql += " ORDER BY number LIMIT $7";
  Params params;
  add_filter(params, filter).int8(filter.after).int8(static_cast<std::int64_t>(filter.limit));
  const Result<Rows> rows = connection->query(sql, params);
  if (!rows) return fail(rows.error());
  std::vector<ParkedRow> found;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    ParkedRow& parked = found.emplace_back();
    parked.number = rows->int8(i, 0);
    parked.reader = std::string(rows->text(i, 1));
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
  Result<Transaction> transaction = Transaction::begin(*connection);
  if (!transaction) return fail(transaction.error());
  const Result<std::vector<Parked>> rows = find(*connection, relay, id);
  if (!rows) return fail(rows.error());
  std::vector<std::int64_t> numbers;
  for (const Parked& row : *rows) {
    if (!row.head) return fail(behind_another(*connection, id, row));
    numbers.push_back(row.number);
  }
  const Result<Rows> done =
      connection->query(std::string(kReplay) + "p.number = ANY ($1)", Params().int8_array(numbers));
  if (!done) return fail(done.error());
  // Numbers are given out for both together.
  if (rows->front().queued)
    DOVETAIL_TRY(
        connection->query("SELECT dovetail.queue_replay($1)", Params().int8_array(numbers)));
  DOVETAIL_TRY(write_audit(*connection, decision, "replay", relay, id.to_string(), numbers.size()));
  DOVETAIL_TRY(transaction->commit());
  return numbers.size();
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

Result<bool> deliver_again(const std::string& url, std::string_view relay, const EventId& id,
                           std::string_view reason) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query("SELECT dovetail.deliver_again($1, $2, $3)",
                                              Params().text(relay).uuid(id).text(reason));
  if (!rows) return fail(rows.error());
  return rows->boolean(0, 0);
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
  Result<Transaction> transaction = Transaction::begin(*connection);
  if (!transaction) return fail(transaction.error());
  const Result<std::vector<Parked>> rows = find(*connection, relay, id);
  if (!rows) return fail(rows.error());
  if (rows->size() > 1)
    return fail(Errc::rejected, "several relays have parked the event " + id.to_string() +
                                    "; name the one that should give it up");
  const Parked& row = rows->front();
  if (!row.head) return fail(behind_another(*connection, id, row));
  if (row.queued) {
    DOVETAIL_TRY(connection->query("SELECT dovetail.queue_discard(ARRAY[$1], false, $2)",
                                   Params().int8(row.number).text(decision.reason)));
  } else {
    const Result<Rows> done = connection->query(
        "UPDATE dovetail.parked AS p SET state = 'discarded', at_head = false, finished_at = "
        "pg_catalog.clock_timestamp(), note = $1 WHERE p.number = $2" +
            std::string(kKeys),
        Params().text(decision.reason).int8(row.number));
    if (!done) return fail(done.error());
    DOVETAIL_TRY(refresh_heads(*connection, *done));
  }
  DOVETAIL_TRY(write_audit(*connection, decision, "discard", row.relay, id.to_string(), 1));
  return transaction->commit();
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
