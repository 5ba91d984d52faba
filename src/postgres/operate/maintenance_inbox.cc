#include "postgres/operate/maintenance_inbox.h"

#include <algorithm>

#include "core/inbox/forgotten.h"
#include "postgres/operate/partitions.h"
#include "postgres/operate/sweep.h"

namespace dovetail::postgres {

namespace {

// $1 rows, $2 what is forgotten from now on, $3 applied before. A row whose event could first have
// been applied later than $2 stays, or the event would not be known as forgotten. Of a row without
// a digest nobody wrote down when its event came to be. The state is written each time, also where
// it stays the same: a claim under REPEATABLE READ locks it, and fails when rows went that it sees.
constexpr std::string_view kCleanDefault =
    "WITH candidate AS (SELECT i.ctid AS place, i.event_id, i.consumer_id, i.applied_at, "
    "greatest(dovetail.time_of(i.event_id), i.available_at, CASE WHEN i.digest IS NULL OR "
    "coalesce(i.available_at, dovetail.time_of(i.event_id)) IS NULL THEN i.applied_at + interval "
    "'1 hour' END) AS until FROM dovetail.inbox_default i WHERE i.applied_at < $3), old AS "
    "MATERIALIZED (SELECT * FROM candidate WHERE until < $2 ORDER BY applied_at LIMIT $1), mark AS "
    "(UPDATE dovetail.inbox_state SET forgotten_before = greatest(forgotten_before, $2), "
    "exact_before = CASE WHEN exact_before >= forgotten_before THEN greatest(exact_before, $2) "
    "ELSE "
    "exact_before END WHERE EXISTS (SELECT 1 FROM old)), line AS (UPDATE dovetail.consumer c SET "
    "forgotten_until = o.until FROM "
    "(SELECT consumer_id, max(until) AS until FROM old GROUP BY consumer_id) AS o WHERE c.id = "
    "o.consumer_id AND c.forgotten_until < o.until), known AS (DELETE FROM dovetail.unapplied u "
    "USING old WHERE u.event_id = old.event_id AND u.consumer_id = old.consumer_id), gone AS "
    "(DELETE FROM dovetail.inbox_default d WHERE d.ctid = ANY (ARRAY(SELECT place FROM old)) "
    "RETURNING 1) SELECT count(*) FROM gone";

// What is parked here, and not applied as long as that is known, is written down as such: it may be
// replayed at any time. $1 what is forgotten from now on.
constexpr std::string_view kKeepUnapplied =
    "INSERT INTO dovetail.unapplied (event_id, consumer_id) SELECT p.id, c.id FROM dovetail.parked "
    "p JOIN dovetail.consumer c ON c.name = p.relay OR pg_catalog.starts_with(c.name, p.relay || "
    "'.') WHERE p.finished_at IS NULL AND dovetail.available_at(p.id, p.created_at) < $1 AND NOT "
    "dovetail.is_forgotten(c.id, p.id, p.created_at) AND NOT EXISTS (SELECT 1 FROM dovetail.inbox "
    "i WHERE i.event_id = p.id AND i.consumer_id = c.id) ON CONFLICT DO NOTHING";

// What is known not to be applied is seldom much, and may be parked for long.
constexpr Duration kUnappliedKept = std::chrono::hours(24 * 366);
// $1 rows, $2 written down before.
constexpr std::string_view kCleanUnapplied =
    "WITH gone AS (DELETE FROM dovetail.unapplied d WHERE d.ctid = ANY (ARRAY(SELECT u.ctid FROM "
    "dovetail.unapplied u WHERE u.since < $2 LIMIT $1)) RETURNING 1) SELECT count(*) FROM gone";

// $1 rows, $2 not counted since.
constexpr std::string_view kCleanAttempts =
    "WITH gone AS (DELETE FROM dovetail.attempt d WHERE d.ctid = ANY (ARRAY(SELECT a.ctid FROM "
    "dovetail.attempt a WHERE a.updated_at < $2 LIMIT $1)) RETURNING 1) SELECT count(*) FROM gone";

// $1 rows, $2 given back, or their lease ended, before.
constexpr std::string_view kCleanClaims =
    "WITH gone AS (DELETE FROM dovetail.claim d WHERE d.ctid = ANY (ARRAY(SELECT c.ctid FROM "
    "dovetail.claim c WHERE c.expires < $2 LIMIT $1)) RETURNING 1) SELECT count(*) FROM gone";

// $1 rows. Each request says itself how long it is kept.
constexpr std::string_view kCleanRequests = "SELECT dovetail.prune_requests($1::int)";

class InboxWork {
 public:
  InboxWork(Connection& connection, const MaintenanceOptions& options, WallTime now,
            MaintenanceReport& report)
      : connection_(connection),
        options_(options),
        report_(report),
        now_(now),
        forgotten_before_(now - options.inbox_older_than),
        applied_before_(forgotten_before_ - kSkewMax) {}

  Status run() {
    DOVETAIL_TRY(inbox_.create_ahead(ms_of(now_)));
    DOVETAIL_TRY(connection_.query("SELECT dovetail.settle_forgetting()"));
    DOVETAIL_TRY(connection_.query(kKeepUnapplied, Params().timestamptz(forgotten_before_)));
    const Result<std::vector<Partition>> existing = inbox_.partitions();
    if (!existing) return fail(existing.error());
    for (const Partition& partition : *existing)
      if (partition.to <= ms_of(forgotten_before_)) DOVETAIL_TRY(drop(partition));
    DOVETAIL_TRY(
        sweep(connection_, options_, kCleanDefault,
              Params().int8(batch()).timestamptz(forgotten_before_).timestamptz(applied_before_),
              report_, report_.inbox));
    const Params old = Params().int8(batch()).timestamptz(forgotten_before_);
    DOVETAIL_TRY(sweep(connection_, options_, kCleanAttempts, old, report_, report_.attempts));
    DOVETAIL_TRY(sweep(connection_, options_, kCleanClaims, old, report_, report_.claims));
    const WallTime unapplied = now_ - std::max<Duration>(options_.inbox_older_than, kUnappliedKept);
    DOVETAIL_TRY(sweep(connection_, options_, kCleanUnapplied,
                       Params().int8(batch()).timestamptz(unapplied), report_, report_.attempts));
    return sweep(connection_, options_, kCleanRequests, Params().int8(batch()), report_,
                 report_.requests);
  }

 private:
  static std::int64_t ms_of(WallTime time) {
    return std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
  }
  static std::int64_t ms_of(const EventId& id) {
    std::int64_t ms = 0;
    for (std::size_t i = 0; i < 6; ++i) ms = ms << 8 | id.bytes[i];
    return ms;
  }
  std::int64_t batch() const { return static_cast<std::int64_t>(options_.batch_max); }

  Status drop(const Partition& partition) {
    const Result<Rows> rows =
        connection_.query("SELECT EXISTS (SELECT 1 FROM " + partition.qualified() + ")");
    if (!rows) return fail(rows.error());
    if (!rows->boolean(0, 0)) return inbox_.remove(partition);
    // Looked through before anybody is locked out, and again under the lock: what came meanwhile
    // was applied not long ago.
    Result<bool> gone = holds_recent(partition);
    if (!gone) return fail(gone.error());
    if (*gone) return stays(partition);
    const Result<Lines> lines = lines_of(partition);
    if (!lines) return fail(lines.error());
    gone = forget(partition, *lines);
    if (!gone) return fail(gone.error());
    return *gone ? inbox_.remove(partition) : Status{};
  }

  // Until when events may be forgotten, of each consumer that has rows there.
  struct Lines {
    std::vector<std::int32_t> consumers{};
    std::vector<WallTime> until{};
  };
  Result<Lines> lines_of(const Partition& partition) {
    const Result<Rows> rows = connection_.query(
        "SELECT consumer_id, max(event_id::text COLLATE \"C\")::uuid, "
        "coalesce(greatest(max(available_at), max(applied_at) FILTER (WHERE digest IS NULL) + "
        "interval '1 hour'), 'epoch') FROM " +
        partition.qualified() + " GROUP BY consumer_id");
    if (!rows) return fail(rows.error());
    Lines lines;
    for (std::size_t i = 0; i < rows->size(); ++i) {
      lines.consumers.push_back(rows->int4(i, 0));
      // Also where the last id is of another kind: it lies between those of its time.
      const WallTime end(std::chrono::milliseconds(ms_of(rows->uuid(i, 1)) + 1));
      lines.until.push_back(std::max(end, rows->timestamptz(i, 2)));
    }
    return lines;
  }

  // Old events may have been applied a moment ago, by a consumer that is new. Of such a one nothing
  // must be forgotten yet.
  Result<bool> holds_recent(const Partition& partition) {
    const Result<Rows> rows =
        connection_.query("SELECT EXISTS (SELECT 1 FROM " + partition.qualified() +
                              " WHERE applied_at >= $1 OR available_at >= $2)",
                          Params().timestamptz(applied_before_).timestamptz(forgotten_before_));
    if (!rows) return fail(rows.error());
    return rows->boolean(0, 0);
  }

  Status stays(const Partition& partition) {
    report_.notes.push_back("the partition " + partition.name +
                            " stays: some of its events were applied not long ago");
    return {};
  }

  // Two locks: the first stops those who apply events of this time, while it is looked through; the
  // second, for a moment, those who look for them.
  // False, and a note, when it must stay as it is for now.
  Result<bool> forget(const Partition& partition, const Lines& lines) {
    Result<Transaction> transaction = Transaction::begin(connection_);
    if (!transaction) return fail(transaction.error());
    const std::string lock = "LOCK TABLE ONLY " + partition.qualified();
    Status done =
        connection_.execute(lock_limits(options_) + "; SET LOCAL statement_timeout = '1min'; " +
                            lock + " IN SHARE MODE");
    if (done) {
      const Result<bool> recent = holds_recent(partition);
      if (!recent) return fail(recent.error());
      if (*recent) {
        DOVETAIL_TRY(stays(partition));
        return false;
      }
      DOVETAIL_TRY(mark(partition, lines));
      done = connection_.execute(lock + " IN ACCESS EXCLUSIVE MODE; TRUNCATE ONLY " +
                                 partition.qualified());
    }
    if (done) {
      DOVETAIL_TRY(transaction->commit());
      return true;
    }
    if (!is_passing(done.error()) || !connection_) return fail(done.error());
    report_.notes.push_back("the partition " + partition.name +
                            " is left for the next run: somebody uses it, such as a backup or a "
                            "consumer of old events");
    return false;
  }

  // In the transaction that deletes the rows.
  Status mark(const Partition& partition, const Lines& lines) {
    DOVETAIL_TRY(connection_.query(
        "UPDATE dovetail.inbox_state SET forgotten_before = greatest(forgotten_before, $1), "
        "exact_before = CASE WHEN exact_before >= forgotten_before THEN greatest(exact_before, $1) "
        "ELSE exact_before END",
        Params().timestamptz(forgotten_before_)));
    DOVETAIL_TRY(connection_.query(
        "UPDATE dovetail.consumer AS c SET forgotten_until = l.until FROM unnest($1::int[], "
        "$2::timestamptz[]) AS l (id, until) WHERE c.id = l.id AND c.forgotten_until < l.until",
        Params().int4_array(lines.consumers).timestamptz_array(lines.until)));
    DOVETAIL_TRY(connection_.query("DELETE FROM dovetail.unapplied AS u USING " +
                                   partition.qualified() +
                                   " AS i WHERE u.event_id = i.event_id AND u.consumer_id = "
                                   "i.consumer_id"));
    return {};
  }

  Connection& connection_;
  const MaintenanceOptions& options_;
  MaintenanceReport& report_;
  const WallTime now_;
  const WallTime forgotten_before_;
  const WallTime applied_before_;
  PartitionedTable inbox_{connection_, "inbox", "consumers", options_, report_};
};

}  // namespace

Status maintain_inbox(Connection& connection, const MaintenanceOptions& options, WallTime now,
                      MaintenanceReport& report) {
  return InboxWork(connection, options, now, report).run();
}

}  // namespace dovetail::postgres
