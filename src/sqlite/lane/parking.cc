#include "sqlite/lane/parking.h"

#include <set>

#include "core/failure/retry.h"
#include "sqlite/connection/event_columns.h"

namespace dovetail::sqlite {

namespace {

constexpr std::string_view kUpsert =
    "INSERT INTO dovetail_parked (relay, position, id, topic, aggregate_type, aggregate_id, type, "
    "content_type, headers, payload, aggregate_version, created_at, state, attempts, reason, "
    "parked_at, retry_at, at_head) "
    "VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17, ?6 = '') "
    "ON CONFLICT (relay, id) DO UPDATE SET state = excluded.state, attempts = excluded.attempts, "
    "reason = excluded.reason, retry_at = excluded.retry_at, finished_at = 0, "
    "position = CASE finished_at WHEN 0 THEN min(position, excluded.position) ELSE "
    "excluded.position END, topic = excluded.topic, aggregate_type = excluded.aggregate_type, "
    "aggregate_id = excluded.aggregate_id, type = excluded.type, "
    "content_type = excluded.content_type, headers = excluded.headers, payload = excluded.payload, "
    "aggregate_version = excluded.aggregate_version, created_at = excluded.created_at, "
    "at_head = CASE WHEN excluded.aggregate_id = '' THEN 1 ELSE at_head END "
    "WHERE state <> 'discarded' AND NOT (state = 'parked' AND excluded.state = 'waiting')";

// Whether the stored event with this id is a different one.
constexpr std::string_view kSelectOther =
    "SELECT 1 FROM dovetail_parked WHERE relay = ?1 AND id = ?2 AND state <> 'delivered' AND "
    "(payload <> ?3 OR type <> ?4 OR aggregate_type <> ?5 OR aggregate_id <> ?6)";

constexpr std::string_view kSelectBlocked =
    "SELECT aggregate_type, aggregate_id FROM dovetail_parked INDEXED BY dovetail_parked_head "
    "WHERE relay = ?1 AND at_head = 1 AND aggregate_id <> '' LIMIT ?2";

constexpr std::string_view kSelectIsBlocked =
    "SELECT 1 FROM dovetail_parked INDEXED BY dovetail_parked_head "
    "WHERE relay = ?1 AND aggregate_type = ?2 AND aggregate_id = ?3 AND at_head = 1";

// ?2: now. ?3: a later due time cannot be right, see is_due().
constexpr std::string_view kSelectDueHeads =
    "SELECT * FROM (SELECT number, aggregate_type, aggregate_id FROM dovetail_parked "
    "INDEXED BY dovetail_parked_due WHERE relay = ?1 AND at_head = 1 AND state = 'waiting' "
    "AND retry_at <= ?2 ORDER BY retry_at LIMIT ?4) UNION ALL "
    "SELECT * FROM (SELECT number, aggregate_type, aggregate_id FROM dovetail_parked "
    "INDEXED BY dovetail_parked_due WHERE relay = ?1 AND at_head = 1 AND state = 'waiting' "
    "AND retry_at > ?3 ORDER BY retry_at LIMIT ?4)";

const std::string kSelectDueOfKey =
    "SELECT position, attempts, state = 'waiting' AND (retry_at <= ?4 OR retry_at > ?5), "
    "replays, " +
    std::string(kEventColumns) +
    " FROM dovetail_parked INDEXED BY dovetail_parked_key WHERE relay = ?1 AND "
    "aggregate_type = ?2 AND aggregate_id = ?3 AND finished_at = 0 ORDER BY position";

const std::string kSelectOne =
    "SELECT position, attempts, state = 'waiting' AND (retry_at <= ?2 OR retry_at > ?3), "
    "replays, " +
    std::string(kEventColumns) + " FROM dovetail_parked WHERE number = ?1";

constexpr std::string_view kFinish =
    "UPDATE dovetail_parked SET state = 'delivered', at_head = 0, finished_at = ?3 "
    "WHERE relay = ?1 AND id = ?2 AND finished_at = 0 RETURNING aggregate_type, aggregate_id";

constexpr std::string_view kCountReplayed =
    "UPDATE dovetail_relay SET replayed_total = replayed_total + ?2, delivered_total = "
    "delivered_total + ?2 WHERE relay = ?1";

// Adds due events of the statement until the first one that is not due. False: the limits are
// reached.
Result<bool> take_rows(Statement& select, Batch& out, std::vector<std::uint32_t>& attempts,
                       const Limits& limits) {
  const Reading reading(select);
  while (true) {
    const Result<bool> row = select.step();
    if (!row) return fail(row.error());
    if (!*row || select.integer(2) == 0) return true;
    const bool room = out.size() < limits.events_max &&
                      (out.empty() || out.bytes() + select.bytes(11).size() <= limits.bytes_max);
    if (!room) return false;
    out.append(read_event(select, select.integer(0), 4)).replays =
        static_cast<std::uint32_t>(select.integer(3));
    attempts.push_back(static_cast<std::uint32_t>(select.integer(1)));
  }
}

}  // namespace

SqliteParking::SqliteParking(Reader& reader, Clock& clock) : reader_(reader), clock_(clock) {}

Status SqliteParking::open() {
  OpenOptions options;
  // If events come from a broker, parked ones are acknowledged there and never come again.
  options.durability =
      reader_.source == SourceKind::broker ? Durability::full : Durability::ordered;
  Result<Database> database = open_store(reader_.path, options);
  if (!database) return fail(database.error());
  database_ = std::move(*database);
  DOVETAIL_TRY(ensure_reader(database_, reader_));
  DOVETAIL_TRY(heads_.prepare(database_));
  DOVETAIL_TRY(database_.prepare(select_epoch_, kSelectEpoch));
  DOVETAIL_TRY(database_.prepare(select_blocked_, kSelectBlocked));
  DOVETAIL_TRY(database_.prepare(select_is_blocked_, kSelectIsBlocked));
  DOVETAIL_TRY(database_.prepare(select_other_, kSelectOther));
  DOVETAIL_TRY(database_.prepare(upsert_, kUpsert));
  DOVETAIL_TRY(database_.prepare(select_due_heads_, kSelectDueHeads));
  DOVETAIL_TRY(database_.prepare(select_due_of_key_, kSelectDueOfKey));
  DOVETAIL_TRY(database_.prepare(select_one_, kSelectOne));
  DOVETAIL_TRY(database_.prepare(count_replayed_, kCountReplayed));
  return database_.prepare(finish_, kFinish);
}

Status SqliteParking::blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) {
  select_blocked_.bind_text(1, reader_.name).bind(2, static_cast<std::int64_t>(keys_max));
  const Reading reading(select_blocked_);
  while (true) {
    const Result<bool> row = select_blocked_.step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    out.emplace_back(select_blocked_.bytes(0), select_blocked_.bytes(1));
  }
}

Status SqliteParking::blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) {
  for (const OrderKey& key : keys) {
    select_is_blocked_.bind_text(1, reader_.name).bind_text(2, key.first).bind_text(3, key.second);
    const Reading reading(select_is_blocked_);
    const Result<bool> row = select_is_blocked_.step();
    if (!row) return fail(row.error());
    if (*row) out.push_back(key);
  }
  return {};
}

Status SqliteParking::park(std::span<const ParkRequest> requests) {
  if (requests.empty()) return {};
  Result<Transaction> transaction = Transaction::begin(database_.get(), "parking events");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(check_epoch(select_epoch_, reader_));
  const std::int64_t now = to_stored(clock_.wall());
  std::set<std::pair<std::string_view, std::string_view>> keys;
  for (const ParkRequest& request : requests) {
    DOVETAIL_TRY(keep(request, now));
    keys.emplace(request.event->aggregate_type, request.event->aggregate_id);
  }
  for (const auto& [aggregate_type, aggregate_id] : keys)
    DOVETAIL_TRY(heads_.refresh(reader_.name, aggregate_type, aggregate_id));
  return transaction->commit("parking events");
}

Status SqliteParking::keep(const ParkRequest& request, std::int64_t now) {
  const Event& event = *request.event;
  select_other_.bind_text(1, reader_.name)
      .bind_id(2, event.id)
      .bind_blob(3, event.payload)
      .bind_text(4, event.type)
      .bind_text(5, event.aggregate_type)
      .bind_text(6, event.aggregate_id);
  const Result<bool> is_other = select_other_.step();
  select_other_.reset();
  if (!is_other) return fail(is_other.error());
  if (!*is_other) return upsert(request, now);
  const SecondEvent second(request);
  return upsert(second.request(), now);
}

Status SqliteParking::upsert(const ParkRequest& request, std::int64_t now) {
  const std::string reason = stored_reason(request.reason);
  upsert_.bind_text(1, reader_.name).bind(2, request.event->position);
  bind_event(upsert_, *request.event, 3);
  upsert_.bind_text(13, request.state == ParkState::parked ? "parked" : "waiting")
      .bind(14, request.attempts)
      .bind_text(15, reason)
      .bind(16, now)
      .bind(17, now + request.delay.count());
  return upsert_.run();
}

Status SqliteParking::take_due(Batch& out, std::vector<std::uint32_t>& attempts,
                               const Limits& limits) {
  const WallTime wall = clock_.wall();
  const std::int64_t now = to_stored(wall);
  const std::int64_t latest = to_stored(latest_due(wall, limits.pause_max));
  select_due_heads_.bind_text(1, reader_.name)
      .bind(2, now)
      .bind(3, latest)
      .bind(4, static_cast<std::int64_t>(limits.events_max));
  const Reading reading(select_due_heads_);
  while (out.size() < limits.events_max) {
    const Result<bool> row = select_due_heads_.step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    const bool has_key = !select_due_heads_.bytes(2).empty();
    Statement& select = has_key ? select_due_of_key_ : select_one_;
    if (has_key) {
      select.bind_text(1, reader_.name)
          .bind_text(2, select_due_heads_.bytes(1))
          .bind_text(3, select_due_heads_.bytes(2))
          .bind(4, now)
          .bind(5, latest);
    } else {
      select.bind(1, select_due_heads_.integer(0)).bind(2, now).bind(3, latest);
    }
    const Result<bool> room = take_rows(select, out, attempts, limits);
    if (!room) return fail(room.error());
    if (!*room) return {};
  }
  return {};
}

Status SqliteParking::delivered(std::span<const EventId> ids) {
  if (ids.empty()) return {};
  Result<Transaction> transaction = Transaction::begin(database_.get(), "finishing parked events");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(check_epoch(select_epoch_, reader_));
  const std::int64_t now = to_stored(clock_.wall());
  std::set<OrderKey> keys;
  std::int64_t finished = 0;
  for (const EventId& id : ids) {
    finish_.bind_text(1, reader_.name).bind_id(2, id).bind(3, now);
    const Reading reading(finish_);
    const Result<bool> row = finish_.step();
    if (!row) return fail(row.error());
    if (!*row) continue;
    ++finished;
    keys.emplace(finish_.bytes(0), finish_.bytes(1));
  }
  for (const auto& [aggregate_type, aggregate_id] : keys)
    DOVETAIL_TRY(heads_.refresh(reader_.name, aggregate_type, aggregate_id));
  DOVETAIL_TRY(count_replayed_.bind_text(1, reader_.name).bind(2, finished).run());
  return transaction->commit("finishing parked events");
}

}  // namespace dovetail::sqlite
