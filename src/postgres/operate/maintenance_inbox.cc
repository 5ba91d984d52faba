#include "postgres/operate/maintenance_inbox.h"

#include <algorithm>

#include "core/inbox/forgotten.h"

namespace dovetail::postgres {

// A row whose event could first have been applied later than $2 stays, or the event would not be
// known as forgotten. A row has no digest if a service claimed its event by the id alone, or if it
// is older than digests; nobody wrote down when such an event came to be. exact_before stays behind
// forgotten_before until settle_forgetting() is called, see maintenance.cc. The state is written
// each time, also where it stays the same: a claim under REPEATABLE READ locks it, and fails when
// rows went that it sees.
const std::string kForgetInbox =
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

namespace {

class InboxWork {
 public:
  InboxWork(Connection& connection, PartitionedTable& inbox, const MaintenanceOptions& options,
            WallTime before, MaintenanceReport& report)
      : connection_(connection),
        inbox_(inbox),
        options_(options),
        report_(report),
        forgotten_before_(before),
        applied_before_(before - kSkewMax) {}

  Status run() {
    const Result<std::vector<Partition>> existing = inbox_.partitions();
    if (!existing) return fail(existing.error());
    for (const Partition& partition : *existing)
      if (partition.to <= ms_of(forgotten_before_)) DOVETAIL_TRY(drop(partition));
    return {};
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
  PartitionedTable& inbox_;
  const MaintenanceOptions& options_;
  MaintenanceReport& report_;
  const WallTime forgotten_before_;
  const WallTime applied_before_;
};

}  // namespace

Status drop_inbox(Connection& connection, PartitionedTable& inbox,
                  const MaintenanceOptions& options, WallTime before, MaintenanceReport& report) {
  return InboxWork(connection, inbox, options, before, report).run();
}

}  // namespace dovetail::postgres
