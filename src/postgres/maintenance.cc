#include "postgres/maintenance.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "postgres/connection.h"
#include "postgres/schema.h"

namespace dovetail::postgres {

namespace {

// In milliseconds since 1970, as the first 48 bits of an id say it.
struct Partition {
  std::string name;  // without the schema
  std::int64_t from = 0;
  std::int64_t to = 0;
};

// A row that some lane has not passed.
constexpr std::string_view kUnpassed =
    "EXISTS (SELECT 1 FROM dovetail.reader r WHERE NOT r.mapped AND o.slot * r.lanes / 256 = "
    "r.lane "
    "AND NOT (pg_catalog.pg_visible_in_snapshot(o.xid, r.prev) OR (r.now IS NOT NULL AND o.seq <= "
    "r.seq AND pg_catalog.pg_visible_in_snapshot(o.xid, r.now))))";

// $1 behind which seq, $2 age in microseconds, $3 rows.
const std::string kCleanDefault =
    "WITH page AS MATERIALIZED (SELECT o.ctid AS place, o.seq, o.xid, "
    "dovetail.slot(o.aggregate_type, o.aggregate_id, o.id) AS slot, o.created_at < "
    "pg_catalog.clock_timestamp() - $2::int8 * interval '1 microsecond' AS old FROM "
    "dovetail.outbox_default o WHERE o.seq > $1 ORDER BY o.seq LIMIT $3), gone AS (DELETE FROM "
    "dovetail.outbox_default d WHERE d.ctid = ANY (ARRAY(SELECT o.place FROM page o WHERE o.old "
    "AND NOT " +
    std::string(kUnpassed) +
    ")) RETURNING 1) SELECT (SELECT count(*) FROM gone), (SELECT max(seq) FROM page), (SELECT "
    "coalesce(bool_or(old), false) FROM page)";

// Why nothing may be taken away; no row: it may.
constexpr std::string_view kHindrance =
    "SELECT CASE WHEN count(*) = 0 THEN 'no relay has ever read the outbox; nothing is taken away "
    "before one has: start it once, or drop partitions by hand' "
    "WHEN bool_or(missing) THEN 'not every lane of the relay \"' || min(relay) FILTER (WHERE "
    "missing) || '\" has ever run; start it, or delete its rows in dovetail.reader if it is gone' "
    "WHEN bool_or(foreign_snapshot) THEN 'the relay \"' || min(relay) FILTER (WHERE "
    "foreign_snapshot) || '\" has not run since the database was restored into this cluster; start "
    "it, or delete its rows in dovetail.reader if it is gone' END FROM (SELECT relay, count(*) < "
    "max(lanes) AS missing, bool_or(system_identifier <> 0 AND system_identifier <> (SELECT "
    "c.system_identifier FROM pg_catalog.pg_control_system() c)) AS foreign_snapshot FROM "
    "dovetail.reader WHERE NOT mapped GROUP BY relay) AS relays";

constexpr std::string_view kPartitions =
    "SELECT c.relname::text, pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM "
    "pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = "
    "'dovetail.outbox'::pg_catalog.regclass";

// The least id of a time.
std::string id_at(std::int64_t ms) {
  EventId id;
  for (int i = 0; i < 6; ++i)
    id.bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(ms >> (40 - 8 * i));
  return id.to_string();
}

std::int64_t time_of(const EventId& id) {
  std::int64_t ms = 0;
  for (std::size_t i = 0; i < 6; ++i) ms = ms << 8 | id.bytes[i];
  return ms;
}

// The two ids of "FOR VALUES FROM ('...') TO ('...')".
std::optional<Partition> parse_bounds(std::string_view name, std::string_view bounds) {
  constexpr std::size_t kIdLength = 36;
  Partition partition{std::string(name)};
  std::array<std::int64_t*, 2> ends = {&partition.from, &partition.to};
  for (std::int64_t* end : ends) {
    const std::size_t quote = bounds.find('\'');
    if (quote == std::string_view::npos) return std::nullopt;
    const Result<EventId> id = EventId::parse(bounds.substr(quote + 1, kIdLength));
    if (!id) return std::nullopt;
    *end = time_of(*id);
    bounds.remove_prefix(std::min(bounds.size(), quote + kIdLength + 2));
  }
  return partition;
}

std::string name_of(std::int64_t from_ms) {
  const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(from_ms)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "outbox_p%04d%02u%02u_%02d%02d",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()));
  return name.data();
}

// Whether this is worth another try later, and nothing to stop for.
bool is_passing(const Error& error) { return error.code == Errc::unavailable; }

class Work {
 public:
  Work(Connection& connection, const MaintenanceOptions& options)
      : connection_(connection), options_(options) {}

  Result<MaintenanceReport> run() {
    const Result<Rows> now =
        connection_.query("SELECT (EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * 1000)::int8");
    if (!now) return fail(now.error());
    now_ms_ = now->int8(0, 0);
    DOVETAIL_TRY(create_ahead());
    const Result<Rows> hindrance = connection_.query(kHindrance);
    if (!hindrance) return fail(hindrance.error());
    if (hindrance->is_null(0, 0)) {
      DOVETAIL_TRY(drop_old());
      DOVETAIL_TRY(clean_default());
    } else {
      report_.notes.emplace_back(hindrance->text(0, 0));
    }
    DOVETAIL_TRY(
        clean("dovetail.parked", "finished_at", options_.parked_older_than, report_.parked));
    DOVETAIL_TRY(clean("dovetail.audit", "at", options_.audit_older_than, report_.audit));
    return std::move(report_);
  }

 private:
  Result<std::vector<Partition>> partitions() {
    const Result<Rows> rows = connection_.query(kPartitions);
    if (!rows) return fail(rows.error());
    std::vector<Partition> found;
    for (std::size_t i = 0; i < rows->size(); ++i)
      if (auto partition = parse_bounds(rows->text(i, 0), rows->text(i, 1)); partition)
        found.push_back(std::move(*partition));
    std::sort(found.begin(), found.end(),
              [](const Partition& a, const Partition& b) { return a.from < b.from; });
    return found;
  }

  // Settings that end with the transaction. A statement that holds a lock is short, or given up.
  std::string limits() const {
    const auto ms = std::max<std::int64_t>(
        1, std::chrono::duration_cast<std::chrono::milliseconds>(options_.lock_timeout).count());
    return "SET LOCAL lock_timeout = " + std::to_string(ms) +
           "; SET LOCAL statement_timeout = " + std::to_string(ms + 2000);
  }

  Status create_ahead() {
    const Result<std::vector<Partition>> existing = partitions();
    if (!existing) return fail(existing.error());
    const std::int64_t span =
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.partition_span).count();
    const std::int64_t end =
        now_ms_ + std::chrono::duration_cast<std::chrono::milliseconds>(options_.ahead).count();
    std::int64_t at = now_ms_ - now_ms_ % span;
    auto next = existing->begin();
    while (at < end) {
      while (next != existing->end() && next->to <= at) ++next;
      if (next != existing->end() && next->from <= at) {
        at = next->to;
        continue;
      }
      std::int64_t to = at - at % span + span;
      if (next != existing->end()) to = std::min(to, next->from);
      DOVETAIL_TRY(create(Partition{name_of(at), at, to}));
      at = to;
    }
    return {};
  }

  // Made apart and attached, because that does not wait for publishers, nor they for it.
  Status create(const Partition& partition) {
    const std::string name = "dovetail." + *quoted_name(partition.name);
    Result<Transaction> transaction = Transaction::begin(connection_);
    if (!transaction) return fail(transaction.error());
    const Status made = connection_.execute(
        limits() + "; CREATE TABLE " + name +
        " (LIKE dovetail.outbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED "
        "INCLUDING STORAGE); ALTER TABLE dovetail.outbox ATTACH PARTITION " +
        name + " FOR VALUES FROM ('" + id_at(partition.from) + "') TO ('" + id_at(partition.to) +
        "')");
    if (made) {
      DOVETAIL_TRY(transaction->commit());
      report_.created.push_back(partition.name);
      return {};
    }
    if (!connection_) return fail(made.error());
    if (is_passing(made.error())) {
      report_.notes.push_back(
          "the partition " + partition.name +
          " could not be made now and is left for the next time: " + made.error().text);
      return {};
    }
    if (made.error().text.find("default partition") != std::string::npos) {
      report_.notes.push_back("the partition " + partition.name +
                              " is left out: events of its time are in the default partition "
                              "already, and are deleted there in small steps");
      return {};
    }
    return fail(made.error());
  }

  Status drop_old() {
    const Result<std::vector<Partition>> existing = partitions();
    if (!existing) return fail(existing.error());
    const std::int64_t before =
        now_ms_ -
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.events_older_than).count();
    for (const Partition& partition : *existing)
      if (partition.to <= before) DOVETAIL_TRY(drop(partition));
    return {};
  }

  Status drop(const Partition& partition) {
    const std::string name = "dovetail." + *quoted_name(partition.name);
    // All rows are asked about before the lock is taken; under it only those that came since then.
    const Result<Rows> first = connection_.query(
        "SELECT pg_catalog.pg_current_snapshot()::text, EXISTS (SELECT 1 FROM dovetail.reader r "
        "WHERE NOT r.mapped AND EXISTS (SELECT 1 FROM " +
        name +
        " o WHERE (o.xid >= pg_catalog.pg_snapshot_xmax(r.prev) OR o.xid = ANY (ARRAY(SELECT "
        "pg_catalog.pg_snapshot_xip(r.prev)))) AND dovetail.slot(o.aggregate_type, o.aggregate_id, "
        "o.id) * r.lanes / 256 = r.lane AND NOT (r.now "
        "IS NOT NULL AND o.seq <= r.seq AND pg_catalog.pg_visible_in_snapshot(o.xid, r.now))))");
    if (!first) return fail(first.error());
    if (first->boolean(0, 1)) {
      report_.notes.push_back("the partition " + partition.name +
                              " stays: a relay has not passed all of its events");
      return {};
    }
    // Two steps, because publishers hold the outbox, but never an old partition: that is emptied
    // while they go on, and the empty table is removed when nobody holds the outbox.
    const Result<bool> emptied = empty(partition, name, std::string(first->text(0, 0)));
    if (!emptied) return fail(emptied.error());
    return *emptied ? remove(partition, name) : Status{};
  }

  // False, and a note, when it must stay as it is for now.
  Result<bool> empty(const Partition& partition, const std::string& name,
                     const std::string& snapshot) {
    Result<Transaction> transaction = Transaction::begin(connection_);
    if (!transaction) return fail(transaction.error());
    Status done =
        connection_.execute(limits() + "; LOCK TABLE ONLY " + name + " IN ACCESS EXCLUSIVE MODE");
    if (done) {
      const Result<Rows> since = connection_.query(
          "SELECT EXISTS (SELECT 1 FROM " + name +
              " o WHERE o.xid >= pg_catalog.pg_snapshot_xmax($1::pg_catalog.pg_snapshot) OR o.xid "
              "= ANY (ARRAY(SELECT pg_catalog.pg_snapshot_xip($1::pg_catalog.pg_snapshot))))",
          Params().unknown(snapshot));
      if (!since) return fail(since.error());
      if (since->boolean(0, 0)) return stays(partition);
      done = connection_.execute("TRUNCATE ONLY " + name);
    }
    if (done) {
      DOVETAIL_TRY(transaction->commit());
      return true;
    }
    if (!is_passing(done.error()) || !connection_) return fail(done.error());
    report_.notes.push_back("the partition " + partition.name +
                            " is left for the next time: somebody reads it, such as a backup");
    return false;
  }

  bool stays(const Partition& partition) {
    report_.notes.push_back("the partition " + partition.name +
                            " stays: an event came into it just now");
    return false;
  }

  Status remove(const Partition& partition, const std::string& name) {
    if (outbox_is_held_) return stays_empty(partition);
    Result<Transaction> transaction = Transaction::begin(connection_);
    if (!transaction) return fail(transaction.error());
    Status done = connection_.execute(limits() + "; LOCK TABLE ONLY dovetail.outbox, ONLY " + name +
                                      " IN ACCESS EXCLUSIVE MODE");
    if (done) {
      const Result<Rows> since = connection_.query("SELECT EXISTS (SELECT 1 FROM " + name + ")");
      if (!since) return fail(since.error());
      if (since->boolean(0, 0)) {
        stays(partition);
        return {};
      }
      done = connection_.execute("DROP TABLE " + name);
    }
    if (done) {
      DOVETAIL_TRY(transaction->commit());
      report_.dropped.push_back(partition.name);
      return {};
    }
    if (!is_passing(done.error()) || !connection_) return fail(done.error());
    outbox_is_held_ = true;
    return stays_empty(partition);
  }

  Status stays_empty(const Partition& partition) {
    report_.notes.push_back("the partition " + partition.name +
                            " is empty, and its table is left for the next time: publishers or "
                            "readers hold the outbox, and they are not made to wait");
    return {};
  }

  Status clean_default() {
    std::int64_t after = 0;
    while (true) {
      if (deleted_ >= options_.rows_max) {
        report_.finished = false;
        return {};
      }
      // One page of rows at a time, so that rows which must stay are walked over once.
      const Result<Rows> page = connection_.query(
          kCleanDefault, Params()
                             .int8(after)
                             .int8(options_.events_older_than.count())
                             .int8(static_cast<std::int64_t>(options_.batch_max)));
      if (!page) return fail(page.error());
      const auto gone = static_cast<std::uint64_t>(page->int8(0, 0));
      report_.outbox += gone;
      deleted_ += gone;
      if (!page->boolean(0, 2)) return {};  // empty, or too young as a whole
      after = page->int8(0, 1);
    }
  }

  Status clean(const std::string& table, const std::string& time, Duration older_than,
               std::uint64_t& count) {
    while (true) {
      if (deleted_ >= options_.rows_max) {
        report_.finished = false;
        return {};
      }
      const Result<Rows> gone = connection_.query(
          "WITH gone AS (DELETE FROM " + table + " WHERE number IN (SELECT number FROM " + table +
              " WHERE " + time +
              " < pg_catalog.clock_timestamp() - $1::int8 * interval '1 microsecond' LIMIT $2) "
              "RETURNING 1) SELECT count(*) FROM gone",
          Params().int8(older_than.count()).int8(static_cast<std::int64_t>(options_.batch_max)));
      if (!gone) return fail(gone.error());
      const auto rows = static_cast<std::uint64_t>(gone->int8(0, 0));
      count += rows;
      deleted_ += rows;
      if (rows < options_.batch_max) return {};
    }
  }

  Connection& connection_;
  const MaintenanceOptions& options_;
  MaintenanceReport report_;
  std::int64_t now_ms_ = 0;
  std::uint64_t deleted_ = 0;
  bool outbox_is_held_ = false;  // asking again would make publishers wait again
};

Status check_options(const MaintenanceOptions& options) {
  using std::chrono::hours;
  if (options.partition_span < hours(1) || options.partition_span % hours(1) != Duration{0} ||
      options.partition_span > hours(24 * 366))
    return fail(Errc::rejected,
                "the span of a partition must be whole hours, up to a year; check partition_span");
  if (options.ahead < Duration{0} || options.ahead / options.partition_span > 1000)
    return fail(Errc::rejected,
                "more than 1000 partitions would be made ahead; check ahead and partition_span");
  if (options.events_older_than < Duration{0} || options.parked_older_than < Duration{0} ||
      options.audit_older_than < Duration{0})
    return fail(Errc::rejected, "an age to keep things for is negative; check the retention");
  if (options.batch_max == 0)
    return fail(Errc::rejected, "batch_max is 0, so nothing could be deleted; set it above");
  return {};
}

}  // namespace

Result<MaintenanceReport> maintain(const std::string& url, const MaintenanceOptions& options) {
  DOVETAIL_TRY(check_options(options));
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  return Work(*connection, options).run();
}

}  // namespace dovetail::postgres
