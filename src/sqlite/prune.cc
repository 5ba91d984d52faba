// Deletes what nobody needs any more, a little at a time.
#include <sqlite3.h>

#include <algorithm>

#include "sqlite/admin.h"
#include "sqlite/database.h"
#include "sqlite/reader.h"

namespace dovetail::sqlite {

namespace {

class Pruner {
 public:
  Pruner(Database& database, const PruneOptions& options, PruneReport& report)
      : database_(database), options_(options), report_(report), left_(options.rows_max) {}

  // Runs a bounded delete until it finds nothing more. `sql` has the number of rows as ?1.
  template <class Bind>
  Status repeat(const std::string& sql, Bind bind, std::uint64_t& deleted) {
    Result<Statement> statement = database_.prepare(sql);
    if (!statement) return fail(statement.error());
    while (left_ > 0) {
      const auto limit = static_cast<std::int64_t>(std::min(left_, options_.batch_max));
      statement->bind(1, limit);
      bind(*statement);
      // Each delete is a transaction of its own; between two of them writers get their turn.
      DOVETAIL_TRY(statement->run());
      const int changes = statement->changes();
      deleted += static_cast<std::uint64_t>(changes);
      left_ -= static_cast<std::size_t>(changes);
      if (changes < limit) return {};
      sqlite3_sleep(1);
    }
    report_.finished = false;
    return {};
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
  Status inbox(std::int64_t before) {
    Statement select;
    Statement remove;
    DOVETAIL_TRY(database_.prepare(
        select,
        "SELECT consumer_id, event_id FROM dovetail_inbox WHERE (consumer_id, event_id) > (?1, ?2) "
        "AND applied_at < ?3 ORDER BY consumer_id, event_id LIMIT ?4"));
    DOVETAIL_TRY(database_.prepare(
        remove, "DELETE FROM dovetail_inbox WHERE consumer_id = ?1 AND event_id = ?2"));
    std::pair<std::int64_t, EventId> last{-1, EventId{}};
    std::vector<std::pair<std::int64_t, EventId>> found;
    while (left_ > 0) {
      found.clear();
      const std::size_t limit = std::min(left_, options_.batch_max);
      select.bind(1, last.first).bind_id(2, last.second).bind(3, before);
      DOVETAIL_TRY(collect(select.bind(4, static_cast<std::int64_t>(limit)), found));
      if (!found.empty()) {
        last = found.back();
        DOVETAIL_TRY(remove_all(remove, found));
      }
      if (found.size() < limit) return {};
      sqlite3_sleep(1);
    }
    report_.finished = false;
    return {};
  }

 private:
  using InboxKeys = std::vector<std::pair<std::int64_t, EventId>>;

  static Status collect(Statement& select, InboxKeys& found) {
    const Reading reading(select);
    while (true) {
      const Result<bool> row = select.step();
      if (!row) return fail(row.error());
      if (!*row) return {};
      found.emplace_back(select.integer(0), select.id(1));
    }
  }

  Status remove_all(Statement& remove, const InboxKeys& keys) {
    Result<Transaction> transaction = Transaction::begin(database_.get(), "pruning the inbox");
    if (!transaction) return fail(transaction.error());
    for (const auto& [consumer, id] : keys)
      DOVETAIL_TRY(remove.bind(1, consumer).bind_id(2, id).run());
    DOVETAIL_TRY(transaction->commit("pruning the inbox"));
    report_.inbox += keys.size();
    left_ -= keys.size();
    return {};
  }

  Database& database_;
  const PruneOptions& options_;
  PruneReport& report_;
  std::size_t left_;
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
  DOVETAIL_TRY(pruner.inbox(before(options.inbox_older_than)));
  DOVETAIL_TRY(pruner.repeat(
      "DELETE FROM dovetail_parked WHERE number IN (SELECT number FROM dovetail_parked "
      "WHERE finished_at > 0 AND finished_at < ?2 LIMIT ?1)",
      [&](Statement& statement) { statement.bind(2, before(options.parked_older_than)); },
      report.parked));
  std::uint64_t attempts = 0;
  DOVETAIL_TRY(pruner.repeat(
      "DELETE FROM dovetail_attempt WHERE (consumer_id, event_id) IN (SELECT consumer_id, event_id "
      "FROM dovetail_attempt WHERE updated_at < ?2 LIMIT ?1)",
      [&](Statement& statement) { statement.bind(2, before(options.inbox_older_than)); },
      attempts));
  Checkpointer().when_idle(database->get(), database->file());
  return report;
}

}  // namespace dovetail::sqlite
