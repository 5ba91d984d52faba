// Deletes what nobody needs any more, a little at a time.
#include <sqlite3.h>

#include <algorithm>

#include "core/forgotten.h"
#include "host/host.h"
#include "sqlite/admin.h"
#include "sqlite/database.h"
#include "sqlite/reader.h"
#include "sqlite/requests.h"

namespace dovetail::sqlite {

namespace {

// An id of another kind than version 7 says no time, and its event's time may be ahead of ours. Its
// row stays for so long after `forgotten_before` has passed it.
constexpr Duration kSkewMax = std::chrono::hours(1);

class Pruner {
 public:
  Pruner(Database& database, const PruneOptions& options, PruneReport& report)
      : database_(database), options_(options), report_(report) {}

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

  Status stream(Stream which, std::int64_t before, std::uint64_t& deleted) {
    Result<Statement> readers =
        database_.prepare("SELECT count(*), min(settled) FROM dovetail_reader WHERE stream = ?1");
    if (!readers) return fail(readers.error());
    const Result<bool> row = readers->bind_text(1, to_string(which)).step();
    if (!row) return fail(row.error());
    const std::int64_t count = readers->integer(0);
    const std::int64_t passed = readers->integer(1);
    readers->reset();
    if (count == 0) {
      report_.notes.push_back("the " + std::string(to_string(which)) +
                              " has no reader yet, so nothing of it was deleted");
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
    Statement select;
    DOVETAIL_TRY(database_.prepare(
        select,
        "SELECT consumer_id, event_id, applied_at FROM dovetail_inbox WHERE (consumer_id, "
        "event_id) > (?1, ?2) AND applied_at < ?3 ORDER BY consumer_id, event_id LIMIT ?4"));
    InboxKey last{-1, EventId{}};
    std::size_t left = options_.rows_max;
    while (left > 0) {
      const std::size_t limit = std::min(left, options_.batch_max);
      select.bind(1, last.first).bind_id(2, last.second).bind(3, to_stored(before));
      select.bind(4, static_cast<std::int64_t>(limit));
      std::vector<InboxKey> found;
      const Result<std::size_t> walked = collect(select, before, last, found);
      if (!walked) return fail(walked.error());
      if (!found.empty()) DOVETAIL_TRY(forget(found, before));
      left -= found.size();
      if (*walked < limit) return {};
      sqlite3_sleep(1);
    }
    report_.finished = false;
    return {};
  }

 private:
  using InboxKey = std::pair<std::int64_t, EventId>;

  // Returns how many rows it saw. One whose event would not be known as forgotten stays.
  static Result<std::size_t> collect(Statement& select, WallTime before, InboxKey& last,
                                     std::vector<InboxKey>& found) {
    const Reading reading(select);
    for (std::size_t walked = 0;; ++walked) {
      const Result<bool> row = select.step();
      if (!row) return fail(row.error());
      if (!*row) return walked;
      last = {select.integer(0), select.id(1)};
      const WallTime applied_at = from_stored(select.integer(2));
      if (time_of(last.second).value_or(applied_at + kSkewMax) < before) found.push_back(last);
    }
  }

  Status forget(const std::vector<InboxKey>& keys, WallTime before) {
    Result<Transaction> transaction = Transaction::begin(database_.get(), "pruning the inbox");
    if (!transaction) return fail(transaction.error());
    Result<Statement> mark = database_.prepare(
        "UPDATE dovetail_inbox_state SET forgotten_before = ?1 WHERE forgotten_before < ?1");
    if (!mark) return fail(mark.error());
    DOVETAIL_TRY(mark->bind(1, to_stored(before)).run());
    Result<Statement> remove =
        database_.prepare("DELETE FROM dovetail_inbox WHERE consumer_id = ?1 AND event_id = ?2");
    if (!remove) return fail(remove.error());
    for (const auto& [consumer, id] : keys)
      DOVETAIL_TRY(remove->bind(1, consumer).bind_id(2, id).run());
    DOVETAIL_TRY(transaction->commit("pruning the inbox"));
    report_.inbox += keys.size();
    return {};
  }

  Database& database_;
  const PruneOptions& options_;
  PruneReport& report_;
};

}  // namespace

Result<PruneReport> prune(const std::string& path, const PruneOptions& options, Clock& clock) {
  if (options.batch_max == 0)
    return fail(Errc::rejected, "batch_max is 0; check that a batch holds at least one row");
  OpenOptions open;
  open.durability = Durability::ordered;  // a delete that a power cut undoes is done again
  Result<Database> database = open_store(path, open);
  if (!database) return fail(database.error());
  PruneReport report;
  Pruner pruner(*database, options, report);
  const WallTime now = clock.wall();
  const auto before = [now](Duration age) { return to_stored(now - age); };

  DOVETAIL_TRY(pruner.stream(Stream::outbox, before(options.events_older_than), report.outbox));
  DOVETAIL_TRY(pruner.stream(Stream::mailbox, before(options.events_older_than), report.mailbox));
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
  const std::string boot = boot_id();
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
  DOVETAIL_TRY(pruner.repeat(report.requests, [&](std::size_t limit) {
    return prune_requests(database->get(), limit, clock, boot);
  }));
  Checkpointer().when_idle(database->get(), database->file());
  return report;
}

}  // namespace dovetail::sqlite
