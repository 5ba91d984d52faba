#include "postgres/operate/maintenance.h"

#include "host/host.h"
#include "postgres/connection/session.h"
#include "postgres/lane/reader.h"
#include "postgres/operate/clock_statements.h"
#include "postgres/operate/maintenance_inbox.h"
#include "postgres/operate/partitions.h"
#include "postgres/operate/sweep.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

// A row that some lane has not passed.
constexpr std::string_view kUnpassed =
    "EXISTS (SELECT 1 FROM dovetail.relay_lane r WHERE r.source = 'outbox' AND o.bucket * r.lanes "
    "/ 256 = "
    "r.lane "
    "AND NOT (pg_catalog.pg_visible_in_snapshot(o.xid, r.window_start) OR (r.window_end IS NOT "
    "NULL AND o.seq <= "
    "r.window_seq AND pg_catalog.pg_visible_in_snapshot(o.xid, r.window_end))))";

// $1 behind which seq, $2 made before, $3 rows.
const std::string kCleanDefault =
    "WITH page AS MATERIALIZED (SELECT o.ctid AS place, o.seq, o.xid, "
    "dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) AS bucket, o.created_at < $2 AS old "
    "FROM "
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
    "missing) || '\" has ever run; start it, or delete its rows in dovetail.relay_lane if it is "
    "gone' "
    "WHEN bool_or(foreign_snapshot) THEN 'the relay \"' || min(relay) FILTER (WHERE "
    "foreign_snapshot) || '\" has not run since the database was restored into this cluster; start "
    "it, or delete its rows in dovetail.relay_lane if it is gone' END FROM (SELECT relay, count(*) "
    "< "
    "max(lanes) AS missing, bool_or(system_identifier <> 0 AND system_identifier <> (SELECT "
    "c.system_identifier FROM pg_catalog.pg_control_system() c)) AS foreign_snapshot FROM "
    "dovetail.relay_lane WHERE source = 'outbox' GROUP BY relay) AS relays";

class Work {
 public:
  Work(Connection& connection, const MaintenanceOptions& options, WallTime now)
      : connection_(connection),
        options_(options),
        now_(now),
        now_ms_(std::chrono::floor<std::chrono::milliseconds>(now).time_since_epoch().count()) {}

  Result<MaintenanceReport> run() {
    DOVETAIL_TRY(outbox_.create_ahead(now_ms_));
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
    DOVETAIL_TRY(maintain_inbox(connection_, options_, now_, report_));
    return std::move(report_);
  }

 private:
  Status drop_old() {
    const Result<std::vector<Partition>> existing = outbox_.partitions();
    if (!existing) return fail(existing.error());
    const std::int64_t before =
        now_ms_ -
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.events_older_than).count();
    for (const Partition& partition : *existing)
      if (partition.to <= before) DOVETAIL_TRY(drop(partition));
    return {};
  }

  Status drop(const Partition& partition) {
    const std::string name = partition.qualified();
    const Result<std::string> run = server_run(connection_);
    if (!run) return fail(run.error());
    // All rows are asked about before the lock is taken; under it only those that came since then.
    const Result<Rows> first = connection_.query(
        "SELECT pg_catalog.pg_current_snapshot()::text, EXISTS (SELECT 1 FROM dovetail.relay_lane "
        "r "
        "WHERE r.source = 'outbox' AND EXISTS (SELECT 1 FROM " +
        name +
        " o WHERE (o.xid >= pg_catalog.pg_snapshot_xmax(r.window_start) OR o.xid = ANY "
        "(ARRAY(SELECT "
        "pg_catalog.pg_snapshot_xip(r.window_start)))) AND dovetail.bucket(o.aggregate_type, "
        "o.aggregate_id, "
        "o.id) * r.lanes / 256 = r.lane AND NOT (r.window_end "
        "IS NOT NULL AND o.seq <= r.window_seq AND pg_catalog.pg_visible_in_snapshot(o.xid, "
        "r.window_end)))), " +
        kServerRun);
    if (!first) return fail(first.error());
    if (first->boolean(0, 1)) {
      report_.notes.push_back("the partition " + partition.name +
                              " stays: a relay has not passed all of its events");
      return {};
    }
    // Two steps, because publishers hold the outbox, but never an old partition: that is emptied
    // while they go on, and the empty table is removed when nobody holds the outbox.
    const Result<bool> emptied =
        empty(partition, name, std::string(first->text(0, 0)), std::string(first->text(0, 2)));
    if (!emptied) return fail(emptied.error());
    return *emptied ? outbox_.remove(partition) : Status{};
  }

  // False, and a note, when it must stay as it is for now.
  Result<bool> empty(const Partition& partition, const std::string& name,
                     const std::string& snapshot, const std::string& run) {
    Result<Transaction> transaction = Transaction::begin(connection_);
    if (!transaction) return fail(transaction.error());
    Status done = connection_.execute(lock_limits(options_) + "; LOCK TABLE ONLY " + name +
                                      " IN ACCESS EXCLUSIVE MODE");
    if (done) {
      const Result<Rows> since = connection_.query(
          "SELECT EXISTS (SELECT 1 FROM " + name +
              " o WHERE o.xid >= pg_catalog.pg_snapshot_xmax($1::pg_catalog.pg_snapshot) OR o.xid "
              "= ANY (ARRAY(SELECT pg_catalog.pg_snapshot_xip($1::pg_catalog.pg_snapshot)))), " +
              kServerRun,
          Params().unknown(snapshot));
      if (!since) return fail(since.error());
      if (since->boolean(0, 0) || since->is_null(0, 1) || since->text(0, 1) != run)
        return stays(partition);
      done = connection_.execute("TRUNCATE ONLY " + name);
    }
    if (done) {
      DOVETAIL_TRY(transaction->commit());
      return true;
    }
    if (!is_passing(done.error()) || !connection_) return fail(done.error());
    report_.notes.push_back(
        "the partition " + partition.name +
        " is left for the next run: another session reads it, for example a backup");
    return false;
  }

  bool stays(const Partition& partition) {
    report_.notes.push_back("the partition " + partition.name +
                            " stays: it has just received an event");
    return false;
  }

  Status clean_default() {
    std::int64_t after = 0;
    std::uint64_t deleted = 0;
    while (true) {
      if (deleted >= options_.rows_max) {
        report_.finished = false;
        return {};
      }
      // One page of rows at a time, so that rows which must stay are walked over once.
      const Result<Rows> page = connection_.query(
          kCleanDefault, Params()
                             .int8(after)
                             .timestamptz(now_ - options_.events_older_than)
                             .int8(static_cast<std::int64_t>(options_.batch_max)));
      if (!page) return fail(page.error());
      const auto gone = static_cast<std::uint64_t>(page->int8(0, 0));
      report_.outbox += gone;
      deleted += gone;
      if (!page->boolean(0, 2)) return {};  // empty, or too young as a whole
      after = page->int8(0, 1);
    }
  }

  // What has a number, by one of its times.
  Status clean(const std::string& table, const std::string& time, Duration older_than,
               std::uint64_t& count) {
    const std::string sql = "WITH gone AS (DELETE FROM " + table +
                            " WHERE number IN (SELECT number FROM " + table + " WHERE " + time +
                            " < $1 LIMIT $2) RETURNING 1) SELECT count(*) FROM gone";
    return sweep(
        connection_, options_, sql,
        Params().timestamptz(now_ - older_than).int8(static_cast<std::int64_t>(options_.batch_max)),
        report_, count);
  }

  Connection& connection_;
  const MaintenanceOptions& options_;
  MaintenanceReport report_;
  const WallTime now_;
  const std::int64_t now_ms_;
  PartitionedTable outbox_{connection_, "outbox", "publishers or readers", options_, report_};
};

Status check_options(const MaintenanceOptions& options) {
  using std::chrono::hours;
  if (options.partition_span < hours(1) || options.partition_span % hours(1) != Duration{0} ||
      options.partition_span > hours(24 * 366))
    return fail(Errc::rejected, "partition_span must be whole hours, at most a year; check it");
  if (options.ahead < Duration{0} || options.ahead / options.partition_span > 1000)
    return fail(Errc::rejected,
                "more than 1000 partitions would be created ahead; check ahead and partition_span");
  if (options.events_older_than < Duration{0} || options.parked_older_than < Duration{0} ||
      options.audit_older_than < Duration{0} || options.inbox_older_than < Duration{0})
    return fail(Errc::rejected, "a retention time is negative; check the retention");
  if (options.batch_max == 0)
    return fail(Errc::rejected,
                "batch_max is 0, so nothing could be deleted; set it to at least 1");
  return {};
}

}  // namespace

Result<MaintenanceReport> maintain(const std::string& url, const MaintenanceOptions& options) {
  return maintain(url, options, system_clock());
}

Result<MaintenanceReport> maintain(const std::string& url, const MaintenanceOptions& options,
                                   Clock& clock) {
  DOVETAIL_TRY(check_options(options));
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  // Looking through a large partition takes its time, and nobody waits for it.
  connection->set_timeout(std::chrono::minutes(10));
  PostgresSession session(*connection);
  const Result<WallTime> now =
      trusted_now(session, clock_statements(), clock, boot_id(), "the database");
  if (!now) return fail(now.error());
  return Work(*connection, options, *now).run();
}

}  // namespace dovetail::postgres
