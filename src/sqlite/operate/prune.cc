// Deletes what nobody needs any more, a little at a time.
#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/inbox/forgotten.h"
#include "host/host.h"
#include "sqlite/connection/session.h"
#include "sqlite/lane/reader.h"
#include "sqlite/operate/admin.h"
#include "sqlite/operate/clock_statements.h"
#include "sqlite/work/requests.h"

namespace dovetail::sqlite {

namespace {

// What is known not to be applied is seldom much, and may be parked for long.
constexpr Duration kUnappliedKept = std::chrono::hours(24 * 366);

class Pruner {
 public:
  Pruner(Database& database, const PruneOptions& options, WallTime now, PruneReport& report)
      : database_(database), options_(options), now_(now), report_(report) {}

  // Calls a bounded delete until it finds nothing more. `step` deletes at most so many rows, in a
  // transaction of its own, and returns how many; between two of them writers get their turn.
  template <class Step>
  Status repeat(std::uint64_t& deleted, Step step) {
    std::size_t left = options_.rows_max;
    while (left > 0) {
      const std::size_t limit = std::min(left, options_.batch_max);
      const Result<std::uint64_t> rows = step(limit);
      if (!rows) return fail(rows.error());
      deleted += *rows;
      left -= std::min<std::size_t>(left, *rows);
      if (*rows < limit) return {};
      sqlite3_sleep(1);
    }
    report_.finished = false;
    return {};
  }

  // The same for a statement that has the number of rows as ?1.
  template <class Bind>
  Status repeat(const std::string& sql, Bind bind, std::uint64_t& deleted) {
    Result<Statement> statement = database_.prepare(sql);
    if (!statement) return fail(statement.error());
    return repeat(deleted, [&](std::size_t limit) -> Result<std::uint64_t> {
      statement->bind(1, static_cast<std::int64_t>(limit));
      bind(*statement);
      DOVETAIL_TRY(statement->run());
      return static_cast<std::uint64_t>(statement->changes());
    });
  }

  Status box(SourceKind which, std::int64_t before, std::uint64_t& deleted) {
    Result<Statement> readers =
        database_.prepare("SELECT count(*), min(passed_seq) FROM dovetail_relay WHERE source = ?1");
    if (!readers) return fail(readers.error());
    const Result<bool> row = readers->bind_text(1, to_string(which)).step();
    if (!row) return fail(row.error());
    const std::int64_t count = readers->integer(0);
    const std::int64_t passed = readers->integer(1);
    readers->reset();
    if (count == 0) {
      report_.notes.push_back("the " + std::string(to_string(which)) +
                              " has no relay yet, so nothing of it was deleted");
      return {};
    }
    // In the order of numbers, up to the first that is too young: it stops there instead of looking
    // at all the rest.
    const std::string table(table_of(which));
    return repeat(
        "DELETE FROM " + table + " WHERE seq IN (SELECT seq FROM (SELECT seq, created_at FROM " +
            table + " WHERE seq <= ?2 ORDER BY seq LIMIT ?1) WHERE created_at < ?3)",
        [&](Statement& statement) { statement.bind(2, passed).bind(3, before); }, deleted);
  }

  // The inbox has no index on time, which would cost every insert. So it is walked once in the
  // order of its key, reading without a lock, and only what is found is deleted under one.
  Status inbox(WallTime before) {
    DOVETAIL_TRY(keep_unapplied(before));
    Statement select;
    DOVETAIL_TRY(database_.prepare(
        select,
        "SELECT consumer_id, event_id, applied_at, digest, available_at FROM dovetail_inbox WHERE "
        "(consumer_id, event_id) > (?1, ?2) AND applied_at < ?3 ORDER BY consumer_id, event_id "
        "LIMIT ?4"));
    Found last;
    std::size_t left = options_.rows_max;
    while (left > 0) {
      const std::size_t limit = std::min(left, options_.batch_max);
      select.bind(1, last.consumer).bind_id(2, last.id).bind(3, to_stored(before));
      select.bind(4, static_cast<std::int64_t>(limit));
      std::vector<Found> found;
      const Result<std::size_t> walked = collect(select, before, last, found);
      if (!walked) return fail(walked.error());
      if (!found.empty()) DOVETAIL_TRY(forget(found));
      left -= found.size();
      if (*walked < limit) return {};
      sqlite3_sleep(1);
    }
    report_.finished = false;
    return {};
  }

 private:
  // A row of the inbox, and until when events may be forgotten once it is deleted.
  struct Found {
    std::int64_t consumer = -1;
    EventId id{};
    WallTime until{};
  };

  // What is parked here, and not applied as long as that is known, is written down as such: it may
  // be replayed at any time.
  Status keep_unapplied(WallTime before) {
    Statement select;
    DOVETAIL_TRY(database_.prepare(
        select,
        "SELECT c.id, p.id, p.created_at, c.forgotten_until FROM dovetail_parked AS p JOIN "
        "dovetail_consumer AS c ON c.name = p.relay OR substr(c.name, 1, length(p.relay) + 1) = "
        "p.relay || '.' WHERE p.finished_at = 0 AND NOT EXISTS (SELECT 1 FROM dovetail_inbox AS i "
        "WHERE i.consumer_id = c.id AND i.event_id = p.id) AND NOT EXISTS (SELECT 1 FROM "
        "dovetail_unapplied AS u WHERE u.consumer_id = c.id AND u.event_id = p.id)"));
    Result<Transaction> transaction = Transaction::begin(database_.get(), "pruning the inbox");
    if (!transaction) return fail(transaction.error());
    std::vector<Found> found;
    while (true) {
      const Result<bool> row = select.step();
      if (!row) return fail(row.error());
      if (!*row) break;
      Event event;
      event.id = select.id(1);
      event.created_at = from_stored(select.integer(2));
      const bool may_be_forgotten = is_forgotten(event, before);
      if (may_be_forgotten && !is_forgotten(event, from_stored(select.integer(3))))
        found.push_back({select.integer(0), event.id, {}});
    }
    Statement note;
    DOVETAIL_TRY(database_.prepare(
        note, "INSERT INTO dovetail_unapplied (consumer_id, event_id, since) VALUES (?1, ?2, ?3)"));
    for (const Found& one : found)
      DOVETAIL_TRY(note.bind(1, one.consumer).bind_id(2, one.id).bind(3, to_stored(now_)).run());
    return transaction->commit("pruning the inbox");
  }

  // Returns how many rows it saw. One whose event would not be known as forgotten stays. Of a row
  // without a digest nobody wrote down when its event came to be.
  static Result<std::size_t> collect(Statement& select, WallTime before, Found& last,
                                     std::vector<Found>& found) {
    const Reading reading(select);
    for (std::size_t walked = 0;; ++walked) {
      const Result<bool> row = select.step();
      if (!row) return fail(row.error());
      if (!*row) return walked;
      const std::optional<WallTime> made = time_of(select.id(1));
      WallTime until = made.value_or(WallTime::min());
      if (!select.is_null(4)) until = std::max(until, from_stored(select.integer(4)));
      if (select.is_null(3) || until == WallTime::min())
        until = std::max(until, from_stored(select.integer(2)) + kSkewMax);
      last = {select.integer(0), select.id(1), until};
      if (until < before) found.push_back(last);
    }
  }

  Status forget(const std::vector<Found>& rows) {
    Result<Transaction> transaction = Transaction::begin(database_.get(), "pruning the inbox");
    if (!transaction) return fail(transaction.error());
    Statement mark;
    DOVETAIL_TRY(database_.prepare(
        mark,
        "UPDATE dovetail_consumer SET forgotten_until = ?2 WHERE id = ?1 AND forgotten_until < "
        "?2"));
    Statement remove;
    DOVETAIL_TRY(database_.prepare(
        remove, "DELETE FROM dovetail_inbox WHERE consumer_id = ?1 AND event_id = ?2"));
    Statement applied;
    DOVETAIL_TRY(database_.prepare(
        applied, "DELETE FROM dovetail_unapplied WHERE consumer_id = ?1 AND event_id = ?2"));
    std::map<std::int64_t, WallTime> until;
    for (const Found& row : rows) {
      DOVETAIL_TRY(remove.bind(1, row.consumer).bind_id(2, row.id).run());
      DOVETAIL_TRY(applied.bind(1, row.consumer).bind_id(2, row.id).run());
      WallTime& line = until.try_emplace(row.consumer, row.until).first->second;
      line = std::max(line, row.until);
    }
    for (const auto& [consumer, line] : until)
      DOVETAIL_TRY(mark.bind(1, consumer).bind(2, to_stored(line)).run());
    DOVETAIL_TRY(transaction->commit("pruning the inbox"));
    report_.inbox += rows.size();
    return {};
  }

  Database& database_;
  const PruneOptions& options_;
  const WallTime now_;
  PruneReport& report_;
};

}  // namespace

Result<PruneReport> prune(const std::string& path, const PruneOptions& options, Clock& clock) {
  if (options.batch_max == 0) return fail(Errc::rejected, "batch_max is 0; set it to at least 1");
  OpenOptions open;
  open.durability = Durability::ordered;  // a delete that a power cut undoes is done again
  Result<Database> database = open_store(path, open);
  if (!database) return fail(database.error());
  const std::string& boot = boot_id();
  SqliteSession session(path, Durability::ordered, clock, boot);
  DOVETAIL_TRY(session.connect());
  const Result<WallTime> trusted = trusted_now(session, clock_statements(), clock, boot, path);
  if (!trusted) return fail(trusted.error());
  const WallTime now = *trusted;
  PruneReport report;
  Pruner pruner(*database, options, now, report);
  const auto before = [now](Duration age) { return to_stored(now - age); };

  DOVETAIL_TRY(pruner.box(SourceKind::outbox, before(options.events_older_than), report.outbox));
  DOVETAIL_TRY(pruner.box(SourceKind::mailbox, before(options.events_older_than), report.mailbox));
  DOVETAIL_TRY(pruner.inbox(now - options.inbox_older_than));
  DOVETAIL_TRY(pruner.repeat(
      "DELETE FROM dovetail_parked WHERE number IN (SELECT number FROM dovetail_parked "
      "WHERE finished_at > 0 AND finished_at < ?2 LIMIT ?1)",
      [&](Statement& statement) { statement.bind(2, before(options.parked_older_than)); },
      report.parked));
  DOVETAIL_TRY(pruner.repeat(
      "DELETE FROM dovetail_attempt WHERE (consumer_id, event_id) IN (SELECT consumer_id, event_id "
      "FROM dovetail_attempt WHERE updated_at < ?2 LIMIT ?1)",
      [&](Statement& statement) { statement.bind(2, before(options.inbox_older_than)); },
      report.attempts));
  DOVETAIL_TRY(pruner.repeat(
      "DELETE FROM dovetail_unapplied WHERE (consumer_id, event_id) IN (SELECT consumer_id, "
      "event_id FROM dovetail_unapplied WHERE since < ?2 LIMIT ?1)",
      [&](Statement& statement) {
        statement.bind(2, before(std::max<Duration>(options.inbox_older_than, kUnappliedKept)));
      },
      report.attempts));
  DOVETAIL_TRY(pruner.repeat(
      "DELETE FROM dovetail_claim WHERE (consumer_id, event_id) IN (SELECT consumer_id, event_id "
      "FROM dovetail_claim WHERE updated_at < ?2 AND NOT (lease_boot = ?3 AND lease_expires > ?4) "
      "LIMIT ?1)",
      [&](Statement& statement) {
        statement.bind(2, before(options.inbox_older_than))
            .bind_text(3, boot)
            .bind(4, clock.now().time_since_epoch().count());
      },
      report.claims));
  SqlRequests requests(session, request_statements());
  DOVETAIL_TRY(
      pruner.repeat(report.requests, [&](std::size_t limit) { return requests.prune(limit); }));
  Checkpointer().when_idle(database->get(), database->file());
  return report;
}

}  // namespace dovetail::sqlite
