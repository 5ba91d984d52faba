#include "postgres/lane/parking.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "core/event/utf8.h"
#include "postgres/lane/lane_session.h"
#include "postgres/lane/statements.h"

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
    // ($17) back, perhaps with another content. A discarded one is only if its row was marked so.
    "ON CONFLICT (relay, id) DO UPDATE SET state = excluded.state, attempts = excluded.attempts, "
    "reason = excluded.reason, retry_at = excluded.retry_at, finished_at = NULL, "
    "note = CASE WHEN p.finished_at IS NULL THEN p.note ELSE '' END, "
    "parked_at = CASE WHEN p.finished_at IS NULL THEN p.parked_at ELSE excluded.parked_at END, "
    "position = excluded.position, topic = excluded.topic, aggregate_type = "
    "excluded.aggregate_type, aggregate_id = excluded.aggregate_id, type = excluded.type, "
    "content_type = excluded.content_type, headers = excluded.headers, payload = excluded.payload, "
    "aggregate_version = excluded.aggregate_version, created_at = excluded.created_at, "
    "at_head = excluded.aggregate_id = '' OR p.at_head "
    "WHERE CASE p.state WHEN 'delivered' THEN true WHEN 'discarded' THEN $17 AND p.row_state = "
    "'discarded' ELSE p.position >= excluded.position "
    "AND NOT (p.state = 'parked' AND excluded.state = 'waiting') AND p.payload = excluded.payload "
    "AND p.type = excluded.type AND p.aggregate_type = excluded.aggregate_type AND p.aggregate_id "
    "= excluded.aggregate_id END RETURNING p.id";

// Of events that were not written above, those that are others than what is here under their id.
constexpr std::string_view kOthers =
    "SELECT e.place FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::bytea[]) WITH "
    "ORDINALITY AS e (id, aggregate_type, aggregate_id, type, payload, place) JOIN dovetail.parked "
    "AS p ON p.relay = $1 AND p.id = e.id WHERE (p.payload, p.type, p.aggregate_type, "
    "p.aggregate_id) <> (e.payload, e.type, e.aggregate_type, e.aggregate_id) ORDER BY e.place";

constexpr std::string_view kBlocked =
    "SELECT aggregate_type, aggregate_id FROM dovetail.parked WHERE relay = $1 AND at_head AND "
    "aggregate_id <> '' AND bucket BETWEEN $2 AND $3 LIMIT $4";

constexpr std::string_view kBlockedAmong =
    "SELECT k.type, k.id FROM unnest($2::text[], $3::text[]) AS k (type, id) WHERE EXISTS (SELECT "
    "FROM dovetail.parked AS p WHERE p.relay = $1 AND p.aggregate_type = k.type AND "
    "p.aggregate_id = k.id AND p.finished_at IS NULL)";

// Heads that are due by the clock of the server, which is the one that wrote their times, and what
// follows them on their keys up to the first that is not due. $4: events; $5: bytes; $6: the
// longest pause there is, so that what is due later has a time that cannot be right, see is_due().
constexpr std::string_view kDue =
    "SELECT position, id, topic, aggregate_type, aggregate_id, type, content_type, headers, "
    "payload, aggregate_version, created_at, attempts, replays FROM ("
    "SELECT line.*, sum(octet_length(line.payload)) OVER (ORDER BY head.retry_at, head.number, "
    "line.position, line.number ROWS UNBOUNDED PRECEDING) AS running, "
    "row_number() OVER (ORDER BY head.retry_at, head.number, line.position, line.number) AS place "
    "FROM ((SELECT number, aggregate_type, aggregate_id, retry_at FROM dovetail.parked "
    "WHERE relay = $1 AND at_head AND state = 'waiting' AND retry_at <= statement_timestamp() "
    "AND bucket BETWEEN $2 AND $3 ORDER BY retry_at LIMIT $4) UNION ALL "
    "(SELECT number, aggregate_type, aggregate_id, retry_at FROM dovetail.parked "
    "WHERE relay = $1 AND at_head AND state = 'waiting' AND retry_at > statement_timestamp() + $6 "
    "* interval '1 microsecond' AND bucket BETWEEN $2 AND $3 ORDER BY retry_at LIMIT $4)) AS head "
    "CROSS JOIN LATERAL (SELECT p.*, bool_and(p.state = 'waiting' AND (p.retry_at <= "
    "statement_timestamp() OR p.retry_at > statement_timestamp() + $6 * interval "
    "'1 microsecond')) "
    "OVER (ORDER BY p.position, p.number ROWS UNBOUNDED PRECEDING) AS is_due "
    "FROM dovetail.parked AS p WHERE p.relay = $1 AND p.finished_at IS NULL "
    "AND p.aggregate_type = head.aggregate_type AND p.aggregate_id = head.aggregate_id "
    "AND (head.aggregate_id <> '' OR p.number = head.number) "
    "ORDER BY p.position, p.number LIMIT $4) AS line WHERE line.is_due) AS due "
    "WHERE place <= $4 AND (place = 1 OR running <= $5) ORDER BY place";

constexpr std::string_view kCountReplayed =
    "UPDATE dovetail.relay_lane SET replayed_total = replayed_total + $3, delivered_total = "
    "delivered_total + $3 WHERE relay = $1 AND lane = "
    "$2";

constexpr std::string_view kFinish =
    "UPDATE dovetail.parked SET state = 'delivered', at_head = false, "
    "finished_at = clock_timestamp() WHERE relay = $1 AND id = ANY ($2) AND finished_at IS NULL "
    "RETURNING aggregate_type, aggregate_id";

// The last word about each event: one statement must not touch a row twice. Those that share an id
// with another event of the same call go to `others`.
std::vector<const ParkRequest*> last_of_each(std::span<const ParkRequest> requests,
                                             std::vector<const ParkRequest*>& others) {
  std::map<EventId, std::size_t> place;
  std::vector<const ParkRequest*> out;
  for (const ParkRequest& request : requests) {
    const auto [found, is_new] = place.try_emplace(request.event->id, out.size());
    if (is_new) {
      out.push_back(&request);
    } else if (is_same_event(*out[found->second]->event, *request.event)) {
      out[found->second] = &request;
    } else {
      others.push_back(&request);
    }
  }
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
        .boolean(reader.source == SourceKind::mapped);
    return params;
  }
};

}  // namespace

Status PostgresParking::open() { return connect(reader_); }

Status PostgresParking::blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) {
  const Result<Rows> rows =
      reader_.connection.query(kBlocked, Params()
                                             .text(reader_.relay)
                                             .int4(reader_.first_bucket())
                                             .int4(reader_.last_bucket())
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
  std::vector<const ParkRequest*> others;
  const std::vector<const ParkRequest*> chosen = last_of_each(requests, others);
  Result<Transaction> transaction = Transaction::begin(reader_.connection);
  if (!transaction) return fail(transaction.error());
  LaneSession session(reader_);
  DOVETAIL_TRY(check_epoch(session, lane_statements(), lane_of(reader_)));
  DOVETAIL_TRY(write(chosen, others));
  std::vector<Kept> kept;
  for (const ParkRequest* request : chosen)
    if (std::find(others.begin(), others.end(), request) == others.end())
      kept.push_back({request->event->id, request->event});
  std::deque<SecondEvent> seconds;
  std::map<EventId, const ParkRequest*> apart;
  for (const ParkRequest* request : others) {
    const ParkRequest& second = seconds.emplace_back(*request).request();
    if (apart.try_emplace(second.event->id, &second).second)
      kept.push_back({second.event->id, request->event});
  }
  if (!apart.empty()) {
    std::vector<const ParkRequest*> renamed;
    for (const auto& [id, request] : apart) renamed.push_back(request);
    std::vector<const ParkRequest*> none;
    DOVETAIL_TRY(write(renamed, none));
  }
  std::vector<std::string_view> types;
  std::vector<std::string_view> keys;
  for (const Kept& one : kept) {
    types.push_back(one.event->aggregate_type);
    keys.push_back(one.event->aggregate_id);
  }
  DOVETAIL_TRY(refresh_heads(types, keys));
  DOVETAIL_TRY(changed(kept));
  return transaction->commit();
}

Status PostgresParking::write(std::span<const ParkRequest* const> requests,
                              std::vector<const ParkRequest*>& others) {
  std::vector<std::string> reasons;
  reasons.reserve(requests.size());
  Columns columns;
  for (const ParkRequest* request : requests) {
    reasons.push_back(stored_text(request->reason, kReasonBytesMax));
    columns.add(*request, reasons.back());
  }
  const Result<Rows> written = reader_.connection.query(kUpsert, columns.params(reader_));
  if (!written) return fail(written.error());
  if (written->size() == requests.size()) return {};
  std::set<EventId> done;
  for (std::size_t row = 0; row < written->size(); ++row) done.insert(written->uuid(row, 0));
  std::vector<const ParkRequest*> left;
  Columns content;
  for (const ParkRequest* request : requests) {
    if (done.contains(request->event->id)) continue;
    left.push_back(request);
    content.add(*request, {});
  }
  const Result<Rows> found =
      reader_.connection.query(kOthers, Params()
                                            .text(reader_.relay)
                                            .uuid_array(content.id)
                                            .text_array(content.aggregate_type)
                                            .text_array(content.aggregate_id)
                                            .text_array(content.type)
                                            .bytea_array(content.payload));
  if (!found) return fail(found.error());
  for (std::size_t row = 0; row < found->size(); ++row)
    others.push_back(left[static_cast<std::size_t>(found->int8(row, 0)) - 1]);
  return {};
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
                                         .int4(reader_.first_bucket())
                                         .int4(reader_.last_bucket())
                                         .int8(room)
                                         .int8(static_cast<std::int64_t>(limits.bytes_max))
                                         .int8(limits.pause_max.count()));
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
  LaneSession session(reader_);
  DOVETAIL_TRY(check_epoch(session, lane_statements(), lane_of(reader_)));
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
  std::vector<Kept> kept;
  for (const EventId& id : ids) kept.push_back({id});
  DOVETAIL_TRY(changed(kept));
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
