#include "postgres/parking.h"

#include <algorithm>
#include <map>

#include "core/utf8.h"

namespace dovetail::postgres {

namespace {

constexpr std::size_t kReasonBytesMax = 2000;

constexpr std::string_view kUpsert =
    "INSERT INTO dovetail.parked AS p (relay, id, position, topic, aggregate_type, aggregate_id, "
    "type, content_type, headers, payload, aggregate_version, created_at, state, attempts, reason, "
    "retry_at, at_head) "
    "SELECT $1, e.id, e.position, e.topic, e.aggregate_type, e.aggregate_id, e.type, "
    "e.content_type, e.headers, e.payload, e.aggregate_version, e.created_at, e.state, e.attempts, "
    "e.reason, clock_timestamp() + e.delay * interval '1 microsecond', e.aggregate_id = '' "
    "FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], "
    "$8::text[], $9::text[], $10::bytea[], $11::bigint[], $12::timestamptz[], $13::text[], "
    "$14::int[], $15::text[], $16::bigint[]) AS e (id, position, topic, aggregate_type, "
    "aggregate_id, type, content_type, headers, payload, aggregate_version, created_at, state, "
    "attempts, reason, delay) "
    // What waits for an operator goes on waiting for one when the relay reads it again. An event
    // that was finished is new: somebody published it once more, or set a row of a mapped table
    // ($17) back, perhaps with another content. Such a row is left alone for a minute after it was
    // discarded.
    "ON CONFLICT (relay, id) DO UPDATE SET state = excluded.state, attempts = excluded.attempts, "
    "reason = excluded.reason, retry_at = excluded.retry_at, finished_at = NULL, "
    "note = CASE WHEN p.finished_at IS NULL THEN p.note ELSE '' END, "
    "parked_at = CASE WHEN p.finished_at IS NULL THEN p.parked_at ELSE excluded.parked_at END, "
    "position = excluded.position, topic = excluded.topic, aggregate_type = "
    "excluded.aggregate_type, aggregate_id = excluded.aggregate_id, type = excluded.type, "
    "content_type = excluded.content_type, headers = excluded.headers, payload = excluded.payload, "
    "aggregate_version = excluded.aggregate_version, created_at = excluded.created_at, "
    "at_head = excluded.aggregate_id = '' OR p.at_head "
    "WHERE CASE p.state WHEN 'delivered' THEN true WHEN 'discarded' THEN $17 AND p.finished_at < "
    "clock_timestamp() - interval '1 minute' ELSE p.position >= excluded.position "
    "AND NOT (p.state = 'parked' AND excluded.state = 'waiting') END";

constexpr std::string_view kBlocked =
    "SELECT aggregate_type, aggregate_id FROM dovetail.parked WHERE relay = $1 AND at_head AND "
    "aggregate_id <> '' AND slot BETWEEN $2 AND $3 LIMIT $4";

constexpr std::string_view kBlockedAmong =
    "SELECT k.type, k.id FROM unnest($2::text[], $3::text[]) AS k (type, id) WHERE EXISTS (SELECT "
    "FROM dovetail.parked AS p WHERE p.relay = $1 AND p.aggregate_type = k.type AND "
    "p.aggregate_id = k.id AND p.finished_at IS NULL)";

// Heads that are due by the clock of the server, which is the one that wrote their times, and what
// follows them on their keys up to the first that is not due. $4: events; $5: bytes.
constexpr std::string_view kDue =
    "SELECT position, id, topic, aggregate_type, aggregate_id, type, content_type, headers, "
    "payload, aggregate_version, created_at, attempts, replays FROM ("
    "SELECT line.*, sum(octet_length(line.payload)) OVER (ORDER BY head.retry_at, head.number, "
    "line.position, line.number ROWS UNBOUNDED PRECEDING) AS running, "
    "row_number() OVER (ORDER BY head.retry_at, head.number, line.position, line.number) AS place "
    "FROM (SELECT number, aggregate_type, aggregate_id, retry_at FROM dovetail.parked "
    "WHERE relay = $1 AND at_head AND state = 'waiting' AND retry_at <= statement_timestamp() "
    "AND slot BETWEEN $2 AND $3 ORDER BY retry_at LIMIT $4) AS head "
    "CROSS JOIN LATERAL (SELECT p.*, bool_and(p.state = 'waiting' AND p.retry_at <= "
    "statement_timestamp()) "
    "OVER (ORDER BY p.position, p.number ROWS UNBOUNDED PRECEDING) AS is_due "
    "FROM dovetail.parked AS p WHERE p.relay = $1 AND p.finished_at IS NULL "
    "AND p.aggregate_type = head.aggregate_type AND p.aggregate_id = head.aggregate_id "
    "AND (head.aggregate_id <> '' OR p.number = head.number) "
    "ORDER BY p.position, p.number LIMIT $4) AS line WHERE line.is_due) AS due "
    "WHERE place <= $4 AND (place = 1 OR running <= $5) ORDER BY place";

constexpr std::string_view kCountReplayed =
    "UPDATE dovetail.reader SET replayed_total = replayed_total + $3 WHERE relay = $1 AND lane = "
    "$2";

constexpr std::string_view kFinish =
    "UPDATE dovetail.parked SET state = 'delivered', at_head = false, "
    "finished_at = clock_timestamp() WHERE relay = $1 AND id = ANY ($2) AND finished_at IS NULL "
    "RETURNING aggregate_type, aggregate_id";

// The last word about each event: one statement must not touch a row twice.
std::vector<const ParkRequest*> last_of_each(std::span<const ParkRequest> requests) {
  std::map<EventId, std::size_t> last;
  for (std::size_t i = 0; i < requests.size(); ++i) last[requests[i].event->id] = i;
  std::vector<const ParkRequest*> out;
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (last[requests[i].event->id] == i) out.push_back(&requests[i]);
  return out;
}

struct Columns {
  std::vector<EventId> id;
  std::vector<std::int64_t> position, aggregate_version, delay;
  std::vector<std::string_view> topic, aggregate_type, aggregate_id, type, content_type, headers,
      payload, state, reason;
  std::vector<WallTime> created_at;
  std::vector<std::int32_t> attempts;

  void add(const ParkRequest& request, std::string_view stored) {
    const Event& event = *request.event;
    id.push_back(event.id);
    position.push_back(event.position);
    topic.push_back(event.topic);
    aggregate_type.push_back(event.aggregate_type);
    aggregate_id.push_back(event.aggregate_id);
    type.push_back(event.type);
    content_type.push_back(event.content_type);
    headers.push_back(event.headers);
    payload.push_back(event.payload);
    aggregate_version.push_back(event.aggregate_version);
    created_at.push_back(event.created_at);
    state.push_back(request.state == ParkState::parked ? "parked" : "waiting");
    attempts.push_back(static_cast<std::int32_t>(request.attempts));
    reason.push_back(stored);
    delay.push_back(request.delay.count());
  }

  Params params(const Reader& reader) const {
    Params params;
    params.text(reader.relay)
        .uuid_array(id)
        .int8_array(position)
        .text_array(topic)
        .text_array(aggregate_type)
        .text_array(aggregate_id)
        .text_array(type)
        .text_array(content_type)
        .text_array(headers)
        .bytea_array(payload)
        .int8_array(aggregate_version)
        .timestamptz_array(created_at)
        .text_array(state)
        .int4_array(attempts)
        .text_array(reason)
        .int8_array(delay)
        .boolean(reader.mapped && !reader.outside);
    return params;
  }
};

}  // namespace

Status PostgresParking::open() { return connect(reader_); }

Status PostgresParking::blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) {
  const Result<Rows> rows =
      reader_.connection.query(kBlocked, Params()
                                             .text(reader_.relay)
                                             .int4(reader_.first_slot())
                                             .int4(reader_.last_slot())
                                             .int8(static_cast<std::int64_t>(keys_max)));
  if (!rows) return fail(rows.error());
  for (std::size_t row = 0; row < rows->size(); ++row)
    out.emplace_back(rows->text(row, 0), rows->text(row, 1));
  return {};
}

Status PostgresParking::blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) {
  if (keys.empty()) return {};
  std::vector<std::string_view> types;
  std::vector<std::string_view> ids;
  for (const OrderKey& key : keys) {
    types.push_back(key.first);
    ids.push_back(key.second);
  }
  const Result<Rows> rows = reader_.connection.query(
      kBlockedAmong, Params().text(reader_.relay).text_array(types).text_array(ids));
  if (!rows) return fail(rows.error());
  for (std::size_t row = 0; row < rows->size(); ++row)
    out.emplace_back(rows->text(row, 0), rows->text(row, 1));
  return {};
}

Status PostgresParking::park(std::span<const ParkRequest> requests) {
  if (requests.empty()) return {};
  const std::vector<const ParkRequest*> chosen = last_of_each(requests);
  std::vector<std::string> reasons;
  reasons.reserve(chosen.size());
  Columns columns;
  for (const ParkRequest* request : chosen) {
    reasons.push_back(stored_text(request->reason, kReasonBytesMax));
    columns.add(*request, reasons.back());
  }
  Result<Transaction> transaction = Transaction::begin(reader_.connection);
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(check_epoch(reader_));
  const Result<Rows> parked = reader_.connection.query(kUpsert, columns.params(reader_));
  if (!parked) return fail(parked.error());
  DOVETAIL_TRY(refresh_heads(columns.aggregate_type, columns.aggregate_id));
  return transaction->commit();
}

Status PostgresParking::refresh_heads(std::span<const std::string_view> types,
                                      std::span<const std::string_view> ids) {
  static const std::string refresh = "SELECT dovetail.refresh_heads($1, $2, $3), " + kDurably;
  const Result<Rows> done = reader_.connection.query(
      refresh, Params().text(reader_.relay).text_array(types).text_array(ids));
  if (!done) return fail(done.error());
  return {};
}

Status PostgresParking::take_due(Batch& out, std::vector<std::uint32_t>& attempts,
                                 const Limits& limits) {
  const auto room = static_cast<std::int64_t>(limits.events_max);
  const Result<Rows> rows =
      reader_.connection.query(kDue, Params()
                                         .text(reader_.relay)
                                         .int4(reader_.first_slot())
                                         .int4(reader_.last_slot())
                                         .int8(room)
                                         .int8(static_cast<std::int64_t>(limits.bytes_max)));
  if (!rows) return fail(rows.error());
  for (std::size_t row = 0; row < rows->size(); ++row) {
    out.append(read_event(*rows, row)).replays = static_cast<std::uint32_t>(rows->int4(row, 12));
    attempts.push_back(static_cast<std::uint32_t>(rows->int4(row, 11)));
  }
  return {};
}

Status PostgresParking::delivered(std::span<const EventId> ids) {
  if (ids.empty()) return {};
  Result<Transaction> transaction = Transaction::begin(reader_.connection);
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(check_epoch(reader_));
  const Result<Rows> finished =
      reader_.connection.query(kFinish, Params().text(reader_.relay).uuid_array(ids));
  if (!finished) return fail(finished.error());
  std::vector<std::string_view> types;
  std::vector<std::string_view> keys;
  for (std::size_t row = 0; row < finished->size(); ++row) {
    types.push_back(finished->text(row, 0));
    keys.push_back(finished->text(row, 1));
  }
  DOVETAIL_TRY(refresh_heads(types, keys));
  const Result<Rows> counted =
      reader_.connection.query(kCountReplayed, Params()
                                                   .text(reader_.relay)
                                                   .int4(static_cast<std::int32_t>(reader_.lane))
                                                   .int8(static_cast<std::int64_t>(types.size())));
  if (!counted) return fail(counted.error());
  return transaction->commit();
}

Result<std::int64_t> last_parked_position(Reader& reader) {
  const Result<Rows> rows = reader.connection.query(
      "SELECT coalesce(max(position), 0)::int8 FROM dovetail.parked WHERE relay = $1 AND "
      "finished_at IS NULL",
      Params().text(reader.relay));
  if (!rows) return fail(rows.error());
  return rows->int8(0, 0);
}

}  // namespace dovetail::postgres
