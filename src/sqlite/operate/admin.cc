#include "sqlite/operate/admin.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "dovetail/sqlite.h"
#include "host/host.h"
#include "host/owner.h"
#include "sqlite/connection/database.h"
#include "sqlite/lane/reader.h"
#include "sqlite/operate/event_rows.h"
#include "sqlite/operate/statements.h"

namespace dovetail::sqlite {

namespace {

constexpr std::int64_t kExactMax = 100'000;  // larger counts are estimated

Result<std::int64_t> one_integer(Database& database, const std::string& sql) {
  Result<Statement> select = database.prepare(sql);
  if (!select) return fail(select.error());
  const Result<bool> row = select->step();
  if (!row) return fail(row.error());
  return *row ? select->integer(0) : 0;
}

std::uint64_t size_of(const std::string& file) {
  struct stat found{};
  return stat(file.c_str(), &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
}

// Counting reads every row, so a large table is estimated. Numbers are given out once and deleted
// from the oldest on.
std::string rows_between_numbers(SourceKind source) {
  const std::string table(table_of(source));
  return "SELECT (SELECT max(seq) FROM " + table + ") - (SELECT min(seq) FROM " + table + ") + 1";
}

// Of what each consumer ever applied, as much as its oldest row is old: right where nothing was
// pruned yet, or where events come evenly. A handler counts with its consumer. ?1 is the time.
constexpr std::string_view kInboxEstimate =
    "SELECT coalesce(sum(applied * CASE WHEN since = 0 OR oldest <= since OR since >= ?1 THEN 1.0 "
    "ELSE max(0.0, (?1 - oldest) * 1.0 / (?1 - since)) END), 0) FROM (SELECT max(c.applied, "
    "coalesce((SELECT max(h.applied) FROM dovetail_consumer AS h WHERE substr(c.name, 1, "
    "length(h.name) + 1) = h.name || '.'), 0)) AS applied, c.created_at AS since, (SELECT "
    "i.applied_at FROM dovetail_inbox AS i WHERE i.consumer_id = c.id ORDER BY i.event_id LIMIT 1) "
    "AS oldest FROM dovetail_consumer AS c) WHERE oldest IS NOT NULL";

Status read_rows_of(Database& database, const std::string& table, const std::string& estimate,
                    WallTime now, StoreStatus& status, std::uint64_t StoreStatus::* rows) {
  const Result<std::int64_t> counted =
      one_integer(database, "SELECT count(*) FROM (SELECT 1 FROM " + table + " LIMIT " +
                                std::to_string(kExactMax + 1) + ")");
  if (!counted) return fail(counted.error());
  status.*rows = static_cast<std::uint64_t>(*counted);
  if (*counted <= kExactMax) return {};
  status.are_rows_estimated = true;
  Result<Statement> select = database.prepare(estimate);
  if (!select) return fail(select.error());
  if (select->parameters() > 0) select->bind(1, to_stored(now));
  const Result<bool> row = select->step();
  if (!row) return fail(row.error());
  status.*rows = static_cast<std::uint64_t>(std::max(*counted, select->integer(0)));
  return {};
}

Status read_sizes(Database& database, StoreStatus& status, WallTime now) {
  const std::string file = database.file();
  status.file_bytes = size_of(file);
  status.wal_bytes = size_of(file + "-wal");
  for (const auto& [source, rows] : {std::pair{SourceKind::outbox, &StoreStatus::outbox_rows},
                                     std::pair{SourceKind::mailbox, &StoreStatus::mailbox_rows}})
    DOVETAIL_TRY(read_rows_of(database, std::string(table_of(source)), rows_between_numbers(source),
                              now, status, rows));
  return read_rows_of(database, "dovetail_inbox", std::string(kInboxEstimate), now, status,
                      &StoreStatus::inbox_rows);
}

std::vector<std::string> split_topics(std::string_view stored) {
  std::vector<std::string> topics;
  while (stored.size() >= 2) {
    const std::size_t end = stored.find('\n', 1);
    if (end == std::string_view::npos) break;
    topics.emplace_back(stored.substr(1, end - 1));
    stored.remove_prefix(end + 1);
  }
  return topics;
}

Status read_pending(Database& database, RelayStatus& reader, std::string_view topics,
                    WallTime now) {
  const std::string table(table_of(reader.source));
  const std::string behind =
      " FROM " + table +
      " WHERE seq > ?1 AND (?2 = '' OR instr(?2, char(10) || topic || char(10)))";
  // Counting reads every row, so a large backlog is estimated by the numbers given out.
  Result<Statement> count =
      database.prepare("SELECT count(*), (SELECT max(seq) FROM " + table + ") - ?1 FROM (SELECT 1" +
                       behind + " LIMIT " + std::to_string(kExactMax + 1) + ")");
  if (!count) return fail(count.error());
  Result<bool> row = count->bind(1, reader.passed_seq).bind_text(2, topics).step();
  if (!row) return fail(row.error());
  const std::int64_t counted = count->integer(0);
  reader.pending = static_cast<std::uint64_t>(counted <= kExactMax ? counted : count->integer(1));
  count->reset();

  Result<Statement> oldest =
      database.prepare("SELECT created_at" + behind + " ORDER BY seq LIMIT 1");
  if (!oldest) return fail(oldest.error());
  row = oldest->bind(1, reader.passed_seq).bind_text(2, topics).step();
  if (!row) return fail(row.error());
  if (*row) reader.oldest_age = std::max(Duration{0}, now - from_stored(oldest->integer(0)));
  return {};
}

Status read_parked_counts(Database& database, RelayStatus& reader) {
  Result<Statement> select = database.prepare(
      "SELECT state, count(*) FROM dovetail_parked WHERE relay = ?1 AND finished_at = 0 "
      "GROUP BY state");
  if (!select) return fail(select.error());
  select->bind_text(1, reader.name);
  while (true) {
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    std::uint64_t& count = select->bytes(0) == "parked" ? reader.parked : reader.waiting;
    count = static_cast<std::uint64_t>(select->integer(1));
  }
}

struct Sample {
  std::int64_t at;
  std::int64_t total;
};

double rate_of(std::int64_t total, Sample from, std::int64_t updated_at, std::int64_t now) {
  constexpr std::int64_t kQuietUs = 10'000'000;
  if (from.at == 0 || now - updated_at > kQuietUs) return 0;
  // A reader that has only just begun is not credited with a rate it cannot have kept.
  const std::int64_t span = std::max<std::int64_t>(1'000'000, now - from.at);
  return static_cast<double>(total - from.total) * 1e6 / static_cast<double>(span);
}

// What it last said is true as long as its process holds the lease. One that has none says again
// and again that it lives.
Status read_state(Database& database, Clock& clock, RelayStatus& reader) {
  Result<Statement> select = database.prepare(
      "SELECT state, since, last_error, next_try, owner, epoch, expires, boot FROM "
      "dovetail_relay_state WHERE relay = ?1");
  if (!select) return fail(select.error());
  const Result<bool> row = select->bind_text(1, reader.name).step();
  if (!row) return fail(row.error());
  if (!*row) return {};
  SaidState said;
  said.state = std::string(select->bytes(0));
  said.since = from_stored(select->integer(1));
  said.last_error = std::string(select->bytes(2));
  if (select->integer(3) != 0) said.next_try = from_stored(select->integer(3));
  said.owner = std::string(select->bytes(4));
  const bool is_held = reader.lease_left > Duration::zero();
  const bool lives =
      select->bytes(7) == boot_id() && TimePoint{Duration{select->integer(6)}} > clock.now();
  const bool is_owner =
      select->integer(5) == reader.epoch || reader.owner.starts_with(said.owner + "#");
  said.is_current = is_held ? is_owner : lives;
  reader.said = std::move(said);
  return {};
}

Status read_readers(Database& database, StoreStatus& status, Clock& clock) {
  Result<Statement> select = database.prepare(
      "SELECT relay, source, topics, passed_seq, delivered_total, parked_total, owner, epoch, "
      "lease_expires, lease_boot, updated_at, "
      "CASE WHEN previous_at > 0 THEN previous_at ELSE sample_at END, "
      "CASE WHEN previous_at > 0 THEN previous_total ELSE sample_total END, replayed_total, "
      "target, "
      "hold, hold_since, hold_by, hold_reason, skipped_total FROM dovetail_relay ORDER BY relay");
  if (!select) return fail(select.error());
  const WallTime now = clock.wall();
  while (true) {
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    RelayStatus reader;
    reader.name = std::string(select->bytes(0));
    reader.source = parse_source_kind(select->bytes(1));
    const std::string topics(select->bytes(2));
    reader.topics = split_topics(topics);
    reader.passed_seq = select->integer(3);
    reader.delivered_total = static_cast<std::uint64_t>(select->integer(4));
    reader.parked_total = static_cast<std::uint64_t>(select->integer(5));
    reader.owner = shown_owner(select->bytes(6));
    reader.epoch = select->integer(7);
    if (!reader.owner.empty() && select->bytes(9) == boot_id()) {
      const Duration left = TimePoint{Duration{select->integer(8)}} - clock.now();
      reader.lease_left = std::max(Duration{0}, left);
      if (left <= Duration{0}) status.leases_ended[reader.name] = now + left;
    }
    reader.updated_at = from_stored(select->integer(10));
    reader.events_per_second = rate_of(
        select->integer(4) + select->integer(5) - select->integer(13),
        Sample{select->integer(11), select->integer(12)}, select->integer(10), to_stored(now));
    reader.replayed_total = static_cast<std::uint64_t>(select->integer(13));
    reader.target = std::string(select->bytes(14));
    reader.hold = {parse_hold(select->bytes(15)), from_stored(select->integer(16)),
                   std::string(select->bytes(17)), std::string(select->bytes(18))};
    reader.skipped_total = static_cast<std::uint64_t>(select->integer(19));
    DOVETAIL_TRY(read_state(database, clock, reader));
    if (reader.source != SourceKind::broker)
      DOVETAIL_TRY(read_pending(database, reader, topics, now));
    DOVETAIL_TRY(read_parked_counts(database, reader));
    status.relays.push_back(std::move(reader));
  }
}

Status read_consumers(Database& database, StoreStatus& status, Clock& clock) {
  Result<Statement> select = database.prepare(
      "SELECT name, applied, duplicates, clean, (SELECT count(*) FROM dovetail_attempt AS a WHERE "
      "a.consumer_id = c.id), (SELECT count(*) FROM dovetail_claim AS k WHERE k.consumer_id = c.id "
      "AND k.lease_boot = ?1 AND k.lease_expires > ?2) FROM dovetail_consumer AS c ORDER BY name");
  if (!select) return fail(select.error());
  select->bind_text(1, boot_id()).bind(2, clock.now().time_since_epoch().count());
  while (true) {
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    ConsumerStatus& consumer = status.consumers.emplace_back();
    consumer.name = std::string(select->bytes(0));
    consumer.applied = static_cast<std::uint64_t>(select->integer(1));
    consumer.duplicates = static_cast<std::uint64_t>(select->integer(2));
    consumer.clean = select->integer(3) != 0;
    consumer.trying = static_cast<std::uint64_t>(select->integer(4));
    consumer.claims = static_cast<std::uint64_t>(select->integer(5));
  }
}

void bind_filter(Statement& select, const EventFilter& filter, const EventId& id) {
  select.bind_text(1, to_string(filter.source))
      .bind_text(2, filter.relay)
      .bind(3, filter.after)
      .bind_text(4, filter.state ? to_string(*filter.state) : std::string_view())
      .bind_text(5, filter.type)
      .bind_text(6, filter.key)
      .bind_text(7, filter.topic)
      .bind(8, static_cast<std::int64_t>(filter.limit + kReadersMax));
  if (!filter.id.empty()) select.bind_id(9, id);
}

// Of what is outside, a store knows what was parked.
Result<std::vector<EventRow>> list_of_broker(Database& database, const EventFilter& filter,
                                             const EventId& id) {
  std::string sql =
      "SELECT p.position, p.id, p.relay, p.state, p.topic, p.aggregate_type, p.aggregate_id, "
      "p.type, p.content_type, p.headers, length(p.payload), p.aggregate_version, p.created_at "
      "FROM dovetail_parked AS p JOIN dovetail_relay AS r ON r.relay = p.relay AND r.source = ?1 "
      "WHERE (?2 = '' OR p.relay = ?2) AND p.position > ?3 AND (?4 = '' OR p.state = ?4) AND "
      "(?5 = '' OR p.type = ?5) AND (?6 = '' OR p.aggregate_id = ?6) AND (?7 = '' OR p.topic = ?7)";
  if (!filter.id.empty()) sql += " AND p.id = ?9";
  sql += " ORDER BY p.position, p.relay LIMIT ?8";
  Result<Statement> select = database.prepare(sql);
  if (!select) return fail(select.error());
  bind_filter(*select, filter, id);
  return read_rows(*select, filter.limit);
}

}  // namespace

Status create_store(const std::string& path) {
  OpenOptions options;
  options.create = true;
  Result<Database> database = Database::open(path, options);
  if (!database) return fail(database.error());
  DOVETAIL_TRY(prepare_connection(database->get()));
  return create_schema(database->get());
}

Result<bool> has_tables(const std::string& path) {
  struct stat found{};
  if (stat(path.c_str(), &found) != 0 && errno == ENOENT) return false;
  Result<Database> database = Database::open(path);
  if (!database) return fail(database.error());
  const Result<std::int64_t> count =
      one_integer(*database,
                  "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = "
                  "'dovetail_schema'");
  if (!count) return fail(count.error());
  return *count != 0;
}

Result<StoreStatus> status(const std::string& path, Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  StoreStatus result;
  result.schema_version = kSchemaVersion;
  // One snapshot for all numbers, so that they fit each other.
  DOVETAIL_TRY(database->execute("BEGIN", "reading the status"));
  DOVETAIL_TRY(read_sizes(*database, result, clock.wall()));
  DOVETAIL_TRY(read_readers(*database, result, clock));
  DOVETAIL_TRY(read_consumers(*database, result, clock));
  return result;
}

Result<std::vector<EventRow>> list_events(const std::string& path, const EventFilter& filter) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  EventId id;
  if (!filter.id.empty()) {
    const Result<EventId> parsed = EventId::parse(filter.id);
    if (!parsed) return fail(parsed.error());
    id = *parsed;
  }
  if (filter.source == SourceKind::broker) return list_of_broker(*database, filter, id);
  // What is pending is behind the slowest relay.
  const std::string after =
      filter.state == EventState::pending
          ? "max(?3, coalesce((SELECT min(passed_seq) FROM dovetail_relay WHERE source = ?1), 0))"
          : "?3";
  std::string sql = select_events(filter.source) + " WHERE o.seq > " + after +
                    " AND (?4 = '' OR derived = ?4) AND (?5 = '' OR o.type = ?5) AND "
                    "(?6 = '' OR o.aggregate_id = ?6) AND (?7 = '' OR o.topic = ?7)";
  if (!filter.id.empty()) sql += " AND o.id = ?9";
  // Parked ones are few and found by their own table, not by walking over everything that was
  // delivered.
  if (filter.state && *filter.state != EventState::pending &&
      *filter.state != EventState::delivered && *filter.state != EventState::skipped)
    sql += " AND o.id IN (SELECT id FROM dovetail_parked WHERE state = ?4 AND finished_at " +
           std::string(*filter.state == EventState::discarded ? "> 0)" : "= 0)");
  sql += " ORDER BY o.seq, r.relay LIMIT ?8";

  Result<Statement> select = database->prepare(sql);
  if (!select) return fail(select.error());
  bind_filter(*select, filter, id);
  return read_rows(*select, filter.limit);
}

Result<std::optional<std::string>> payload_of(const std::string& path, const EventId& id) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  const std::string parked = "dovetail_parked WHERE " + std::string(kOfAnyRelay) + " AND id = ?1";
  for (const std::string& box : {std::string("dovetail_outbox WHERE id = ?1"),
                                 std::string("dovetail_mailbox WHERE id = ?1"), parked}) {
    Result<Statement> select = database->prepare("SELECT payload FROM " + box);
    if (!select) return fail(select.error());
    const Result<bool> row = select->bind_id(1, id).step();
    if (!row) return fail(row.error());
    if (*row) return std::optional<std::string>(select->bytes(0));
  }
  return std::optional<std::string>();
}

}  // namespace dovetail::sqlite
