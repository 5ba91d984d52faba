#include "postgres/maintenance_inbox.h"

#include "postgres/partitions.h"
#include "postgres/sweep.h"

namespace dovetail::postgres {

namespace {

// An id of another kind than version 7 says no time, and its event's time may be ahead of ours. Its
// row stays for so long after `forgotten_before` has passed it.
constexpr Duration kSkewMax = std::chrono::hours(1);

// $1 rows, $2 what is forgotten from now on, $3 applied before. A row whose id is of a later time
// than $2 stays, or its event would not be known as forgotten.
constexpr std::string_view kCleanDefault =
    "WITH old AS MATERIALIZED (SELECT i.ctid AS place FROM dovetail.inbox_default i WHERE "
    "i.applied_at < $3 AND coalesce(dovetail.time_of(i.event_id) < $2, true) ORDER BY i.applied_at "
    "LIMIT $1), mark AS (UPDATE dovetail.inbox_state SET forgotten_before = $2 WHERE "
    "forgotten_before < $2 AND EXISTS (SELECT 1 FROM old)), gone AS (DELETE FROM "
    "dovetail.inbox_default d WHERE d.ctid = ANY (ARRAY(SELECT place FROM old)) RETURNING 1) "
    "SELECT count(*) FROM gone";

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
    return sweep(connection_, options_, kCleanRequests, Params().int8(batch()), report_,
                 report_.requests);
  }

 private:
  static std::int64_t ms_of(WallTime time) {
    return std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
  }
  std::int64_t batch() const { return static_cast<std::int64_t>(options_.batch_max); }

  Status drop(const Partition& partition) {
    const Result<Rows> rows =
        connection_.query("SELECT EXISTS (SELECT 1 FROM " + partition.qualified() + ")");
    if (!rows) return fail(rows.error());
    if (!rows->boolean(0, 0)) return inbox_.remove(partition);
    // Looked through before anybody is locked out, and again under the lock.
    Result<bool> gone = holds_recent(partition);
    if (!gone) return fail(gone.error());
    if (*gone) return stays(partition);
    gone = forget(partition);
    if (!gone) return fail(gone.error());
    return *gone ? inbox_.remove(partition) : Status{};
  }

  // Old events may have been applied a moment ago, by a consumer that is new. Of such a one nothing
  // must be forgotten yet.
  Result<bool> holds_recent(const Partition& partition) {
    const Result<Rows> rows = connection_.query(
        "SELECT EXISTS (SELECT 1 FROM " + partition.qualified() + " WHERE applied_at >= $1)",
        Params().timestamptz(applied_before_));
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
  Result<bool> forget(const Partition& partition) {
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
      const Result<Rows> marked = connection_.query(
          "UPDATE dovetail.inbox_state SET forgotten_before = $1 WHERE forgotten_before < $1",
          Params().timestamptz(forgotten_before_));
      if (!marked) return fail(marked.error());
      done = connection_.execute(lock + " IN ACCESS EXCLUSIVE MODE; TRUNCATE ONLY " +
                                 partition.qualified());
    }
    if (done) {
      DOVETAIL_TRY(transaction->commit());
      return true;
    }
    if (!is_passing(done.error()) || !connection_) return fail(done.error());
    report_.notes.push_back("the partition " + partition.name +
                            " is left for the next time: somebody uses it, such as a backup or a "
                            "consumer of old events");
    return false;
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
