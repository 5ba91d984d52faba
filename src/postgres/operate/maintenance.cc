#include "postgres/operate/maintenance.h"

#include "core/inbox/forgotten.h"
#include "host/host.h"
#include "postgres/connection/session.h"
#include "postgres/lane/reader.h"
#include "postgres/operate/clock_statements.h"
#include "postgres/operate/maintenance_inbox.h"
#include "postgres/operate/partitions.h"
#include "postgres/schema/schema.h"
#include "postgres/work/requests.h"
#include "sql/retention.h"

namespace dovetail::postgres {

namespace {

// Some lane has not passed the row o.
constexpr std::string_view kUnpassed =
    "EXISTS (SELECT 1 FROM dovetail.relay_lane r WHERE r.source = 'outbox' AND "
    "dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane "
    "AND NOT (pg_catalog.pg_visible_in_snapshot(o.xid, r.window_start) OR (r.window_end IS NOT "
    "NULL AND o.seq <= r.window_seq AND pg_catalog.pg_visible_in_snapshot(o.xid, r.window_end))))";

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

std::string delete_old(const std::string& table, const std::string& time) {
  return "DELETE FROM dovetail." + table + " WHERE ctid = ANY (ARRAY(SELECT ctid FROM dovetail." +
         table + " WHERE " + time + " < $2 LIMIT $1))";
}

// Of outbox and inbox, what their default partitions hold.
const RetentionStatements& retention_statements() {
  static const RetentionStatements statements = {
      .boxes = {{.hindrance = std::string(kHindrance),
                 .page =
                     "SELECT max(seq), bool_or(created_at < $2) FROM (SELECT seq, created_at FROM "
                     "dovetail.outbox_default WHERE seq > $3 ORDER BY seq LIMIT $1) AS page",
                 .remove = "DELETE FROM dovetail.outbox_default AS o WHERE o.seq > $1 AND o.seq <= "
                           "$2 AND o.created_at < $3 AND NOT " +
                           std::string(kUnpassed),
                 .receipts =
                     "DELETE FROM dovetail.receipt WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM "
                     "(SELECT DISTINCT relay FROM dovetail.relay_lane WHERE source <> 'mapped') "
                     "AS r JOIN dovetail.receipt AS t ON t.relay = r.relay AND t.last_seq < "
                     "coalesce((SELECT min(seq) FROM dovetail.outbox), 9223372036854775807) LIMIT "
                     "$1))",
                 .count = &PruneReport::outbox}},
      .parked = delete_old("parked", "finished_at"),
      .audit = delete_old("audit", "at"),
      .attempts = delete_old("attempt", "updated_at"),
      // What is given back has a lease that ended then.
      .claims = delete_old("claim", "expires"),
      .unapplied = delete_old("unapplied", "since"),
      .parked_events =
          "SELECT p.number, c.id, p.id, p.created_at, c.forgotten_until FROM (SELECT number, "
          "relay, id, created_at FROM dovetail.parked WHERE number > $1 AND finished_at IS NULL "
          "AND created_at <= $3 ORDER BY number LIMIT $2) AS p LEFT JOIN dovetail.consumer AS c ON "
          "(c.name = p.relay OR pg_catalog.starts_with(c.name, p.relay || '.')) AND NOT EXISTS "
          "(SELECT 1 FROM dovetail.inbox AS i WHERE i.event_id = p.id AND i.consumer_id = c.id) "
          "AND NOT EXISTS (SELECT 1 FROM dovetail.unapplied AS u WHERE u.event_id = p.id AND "
          "u.consumer_id = c.id) ORDER BY p.number",
      .note_unapplied =
          "INSERT INTO dovetail.unapplied (event_id, consumer_id) VALUES ($2, $1) ON CONFLICT DO "
          "NOTHING",
      .requests = &request_statements()};
  return statements;
}

// An application deletes rows of its tables without us, so the receipts of relays that read them go
// by their time. Their numbers are times, too.
constexpr Duration kReceiptOfTableKept = std::chrono::hours(24 * 30);
const std::string kReceiptsOfTables =
    "DELETE FROM dovetail.receipt WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM (SELECT DISTINCT "
    "relay "
    "FROM dovetail.relay_lane WHERE source = 'mapped') AS r JOIN dovetail.receipt AS t ON t.relay "
    "= "
    "r.relay AND t.last_seq < (EXTRACT(epoch FROM $2::pg_catalog.timestamptz) * 1000000)::int8 "
    "LIMIT $1))";

class Maintenance final : public SqlRetention {
 public:
  Maintenance(Connection& connection, SqlSession& session, const MaintenanceOptions& options,
              WallTime now, MaintenanceReport& report)
      : SqlRetention(session, retention_statements(), options, now, report),
        connection_(connection),
        options_(options),
        report_(report),
        now_(now),
        now_ms_(ms_of(now)) {}

 private:
  static std::int64_t ms_of(WallTime time) {
    return std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
  }

  Status prepare() override {
    DOVETAIL_TRY(outbox_.create_ahead(now_ms_));
    DOVETAIL_TRY(inbox_.create_ahead(now_ms_));
    // A program of an older version is refused when it connects. One that was deleting rows while
    // the tables were migrated moved forgotten_before alone; until this call, more events than
    // needed count as forgotten.
    const Result<Rows> settled = connection_.query("SELECT dovetail.settle_forgetting()");
    if (!settled) return fail(settled.error());
    std::uint64_t receipts = 0;
    const Duration kept = std::min<Duration>(options_.events_older_than, kReceiptOfTableKept);
    return sweep(kReceiptsOfTables, {now_ - kept}, receipts);
  }

  Status forget_inbox(WallTime before) override {
    DOVETAIL_TRY(drop_inbox(connection_, inbox_, options_, before, report_));
    return sweep(kForgetInbox, {before, before - kSkewMax}, report_.inbox);
  }

  Status drop_events(const RetentionStatements::Box&, WallTime before) override {
    const Result<std::vector<Partition>> existing = outbox_.partitions();
    if (!existing) return fail(existing.error());
    for (const Partition& partition : *existing)
      if (partition.to <= ms_of(before)) DOVETAIL_TRY(drop(partition));
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

  Connection& connection_;
  const MaintenanceOptions& options_;
  MaintenanceReport& report_;
  const WallTime now_;
  const std::int64_t now_ms_;
  PartitionedTable outbox_{connection_, "outbox", "publishers or readers", options_, report_};
  PartitionedTable inbox_{connection_, "inbox", "consumers", options_, report_};
};

Status check_options(const MaintenanceOptions& options) {
  using std::chrono::hours;
  if (options.partition_span < hours(1) || options.partition_span % hours(1) != Duration{0} ||
      options.partition_span > hours(24 * 366))
    return fail(Errc::rejected, "partition_span must be whole hours, at most a year; check it");
  if (options.ahead < Duration{0} || options.ahead / options.partition_span > 1000)
    return fail(Errc::rejected,
                "more than 1000 partitions would be created ahead; check ahead and partition_span");
  return check_retention(options);
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
  MaintenanceReport report;
  DOVETAIL_TRY(Maintenance(*connection, session, options, *now, report).run());
  return report;
}

}  // namespace dovetail::postgres
