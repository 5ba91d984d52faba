// Deletes what nobody needs any more, by the rules of src/sql.
#include <sqlite3.h>

#include <utility>

#include "host/host.h"
#include "sql/retention.h"
#include "sqlite/connection/session.h"
#include "sqlite/lane/reader.h"
#include "sqlite/operate/admin.h"
#include "sqlite/operate/clock_statements.h"
#include "sqlite/work/requests.h"

namespace dovetail::sqlite {

namespace {

// `relays`: those that read the table. `no_relay`: a text, if there are none.
RetentionStatements::Box box_of(std::string_view table, const std::string& relays,
                                const std::string& no_relay, std::uint64_t PruneReport::* count) {
  const std::string name(table);
  const std::string passed = " AND seq <= (SELECT min(passed_seq)" + relays + ")";
  return {.hindrance = "SELECT CASE WHEN count(*) = 0 THEN " + no_relay + " END" + relays,
          .page = "SELECT max(seq), max(created_at < $2) FROM (SELECT seq, created_at FROM " +
                  name + " WHERE seq > $3" + passed + " ORDER BY seq LIMIT $1)",
          .remove =
              "DELETE FROM " + name + " WHERE seq > $1 AND seq <= $2 AND created_at < $3" + passed,
          .receipts =
              "DELETE FROM dovetail_receipt WHERE rowid IN (SELECT t.rowid FROM "
              "(SELECT relay" +
              relays +
              ") AS r JOIN dovetail_receipt AS t ON t.relay = r.relay AND t.last_seq < "
              "(SELECT coalesce(min(seq), 9223372036854775807) FROM " +
              name + ") LIMIT $1)",
          .count = count};
}

// Of a table whose key is a consumer and an event.
std::string delete_old(const std::string& table, const std::string& old) {
  return "DELETE FROM " + table +
         " WHERE (consumer_id, event_id) IN (SELECT consumer_id, event_id FROM " + table +
         " WHERE " + old + " LIMIT $1)";
}

const RetentionStatements& retention_statements() {
  static const RetentionStatements statements = {
      .boxes = {box_of(table_of(SourceKind::outbox), " FROM dovetail_relay WHERE source = 'outbox'",
                       "'the outbox has no relay yet, so nothing of it was deleted'",
                       &PruneReport::outbox),
                box_of(table_of(SourceKind::mailbox),
                       " FROM dovetail_relay WHERE source = 'mailbox'",
                       "'the mailbox has no relay yet, so nothing of it was deleted'",
                       &PruneReport::mailbox)},
      .parked =
          "DELETE FROM dovetail_parked WHERE number IN (SELECT number FROM dovetail_parked WHERE "
          "finished_at > 0 AND finished_at < $2 LIMIT $1)",
      .attempts = delete_old("dovetail_attempt", "updated_at < $2"),
      .claims =
          delete_old("dovetail_claim",
                     "updated_at < $2 AND NOT (lease_boot = :boot AND lease_expires > :boot_time)"),
      .unapplied = delete_old("dovetail_unapplied", "since < $2"),
      .parked_events =
          "SELECT p.number, c.id, p.id, p.created_at, c.forgotten_until FROM (SELECT number, "
          "relay, id, created_at FROM dovetail_parked WHERE number > $1 AND finished_at = 0 AND "
          "created_at <= $3 ORDER BY number LIMIT $2) AS p LEFT JOIN dovetail_consumer AS c ON "
          "(c.name = p.relay OR substr(c.name, 1, length(p.relay) + 1) = p.relay || '.') AND NOT "
          "EXISTS (SELECT 1 FROM dovetail_inbox AS i WHERE i.consumer_id = c.id AND i.event_id = "
          "p.id) AND NOT EXISTS (SELECT 1 FROM dovetail_unapplied AS u WHERE u.consumer_id = c.id "
          "AND u.event_id = p.id) ORDER BY p.number",
      .note_unapplied =
          "INSERT INTO dovetail_unapplied (consumer_id, event_id, since) VALUES ($1, $2, :now) ON "
          "CONFLICT DO NOTHING",
      // There is no index on the time, which would cost every insert.
      .inbox_rows =
          "SELECT consumer_id, event_id, applied_at, digest IS NOT NULL, available_at FROM "
          "dovetail_inbox WHERE (consumer_id, event_id) > ($1, $2) AND applied_at < $4 ORDER BY "
          "consumer_id, event_id LIMIT $5",
      .forget_row =
          "DELETE FROM dovetail_inbox WHERE consumer_id = $1 AND event_id = $2 AND applied_at = $3",
      .forget_unapplied = "DELETE FROM dovetail_unapplied WHERE consumer_id = $1 AND event_id = $2",
      .move_line =
          "UPDATE dovetail_consumer SET forgotten_until = $2 WHERE id = $1 AND forgotten_until < "
          "$2",
      .requests = &request_statements()};
  return statements;
}

class Pruner final : public SqlRetention {
 public:
  using SqlRetention::SqlRetention;

 private:
  void pause() override { sqlite3_sleep(1); }
};

}  // namespace

Result<PruneReport> prune(const std::string& path, const PruneOptions& options, Clock& clock) {
  DOVETAIL_TRY(check_retention(options));
  const std::string& boot = boot_id();
  // A delete that a power cut undoes is done again.
  SqliteSession session(path, Durability::ordered, clock, boot);
  DOVETAIL_TRY(session.connect());
  const Result<WallTime> now = trusted_now(session, clock_statements(), clock, boot, path);
  if (!now) return fail(now.error());
  PruneReport report;
  DOVETAIL_TRY(Pruner(session, retention_statements(), options, *now, report).run());
  session.when_idle();
  return report;
}

}  // namespace dovetail::sqlite
