#include "sqlite/operate/relay_control.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "host/host.h"
#include "sqlite/lane/reader.h"
#include "sqlite/operate/audit.h"

namespace dovetail::sqlite {

namespace {

std::string_view word_for(Hold hold) {
  if (hold == Hold::none) return "resume";
  return hold == Hold::paused ? "pause" : "drain";
}

Status check_reason(const std::string& reason) {
  if (reason.find_first_not_of(" \t\n") != std::string::npos) return {};
  return fail(Errc::rejected, "this needs a reason, which is kept; say why");
}

struct Row {
  Hold hold = Hold::none;
  SourceKind source = SourceKind::outbox;
  std::int64_t passed = 0;
  bool has_owner = false;
  std::string topics{};  // as stored_topics() writes them
};

Result<Row> read_row(Database& database, const std::string& relay, Clock& clock) {
  Result<Statement> select = database.prepare(
      "SELECT hold, source, passed_seq, owner <> '' AND lease_boot = ?2 AND lease_expires > ?3, "
      "topics FROM dovetail_relay WHERE relay = ?1");
  if (!select) return fail(select.error());
  select->bind_text(1, relay)
      .bind_text(2, boot_id())
      .bind(3, clock.now().time_since_epoch().count());
  const Result<bool> row = select->step();
  if (!row) return fail(row.error());
  if (*row)
    return Row{parse_hold(select->bytes(0)), parse_source_kind(select->bytes(1)),
               select->integer(2), select->integer(3) != 0, std::string(select->bytes(4))};
  return fail(Errc::rejected, "no relay or consumer \"" + relay +
                                  "\" has run on this file; check the name with `dovetail "
                                  "status`");
}

// A relay that is held runs without a lease, so that nobody can see it.
Status check_stopped(const Row& row, const std::string& relay) {
  if (row.hold != Hold::none)
    return fail(Errc::rejected, "the relay \"" + relay +
                                    "\" is paused or drained, so nobody can see whether a process "
                                    "still has it; stop its processes, then resume it");
  if (!row.has_owner) return {};
  return fail(Errc::rejected, "the relay \"" + relay +
                                  "\" runs; stop every process that runs it, wait until its lease "
                                  "has run out, then try again");
}

Result<std::int64_t> one_number(Result<Statement> select) {
  if (!select) return fail(select.error());
  const Result<bool> row = select->step();
  if (!row) return fail(row.error());
  return *row ? select->integer(0) : 0;
}

// The number of the last event that the relay then has passed.
Result<std::int64_t> last_before(Database& database, const std::string& table, const SeekTo& to) {
  if (to.kind == SeekTo::Kind::beginning) return 0;
  if (to.kind == SeekTo::Kind::position) return std::max<std::int64_t>(to.position - 1, 0);
  const Result<std::int64_t> last =
      one_number(database.prepare("SELECT coalesce(max(seq), 0) FROM " + table));
  if (!last || to.kind == SeekTo::Kind::now) return last;
  Result<Statement> select = database.prepare("SELECT coalesce(min(seq) - 1, ?2) FROM " + table +
                                              " WHERE created_at >= ?1");
  if (select) select->bind(1, to_stored(to.time)).bind(2, *last);
  return one_number(std::move(select));
}

Result<std::uint64_t> count_between(Database& database, const Row& row, std::int64_t after,
                                    std::int64_t upto) {
  if (upto <= after) return 0;
  Result<Statement> select = database.prepare(
      "SELECT count(*) FROM " + std::string(table_of(row.source)) +
      " WHERE seq > ?1 AND seq <= ?2 AND (?3 = '' OR instr(?3, char(10) || topic || char(10)))");
  if (select) select->bind(1, after).bind(2, upto).bind_text(3, row.topics);
  const Result<std::int64_t> count = one_number(std::move(select));
  if (!count) return fail(count.error());
  return static_cast<std::uint64_t>(*count);
}

Result<SeekCounts> count_seek(Database& database, const Row& row, const std::string& relay,
                              std::int64_t to) {
  const Result<std::uint64_t> again = count_between(database, row, to, row.passed);
  if (!again) return fail(again.error());
  const Result<std::uint64_t> skipped = count_between(database, row, row.passed, to);
  if (!skipped) return fail(skipped.error());
  Result<Statement> select = database.prepare(
      "SELECT count(*) FROM dovetail_parked WHERE relay = ?1 AND state = 'discarded' AND position "
      "> ?2");
  if (select) select->bind_text(1, relay).bind(2, to);
  const Result<std::int64_t> discarded = one_number(std::move(select));
  if (!discarded) return fail(discarded.error());
  return SeekCounts{*again, *skipped, static_cast<std::uint64_t>(*discarded)};
}

Status update_text(Database& database, std::string_view sql, const std::string& relay,
                   const std::string& text) {
  Result<Statement> update = database.prepare(sql);
  if (!update) return fail(update.error());
  return update->bind_text(1, relay).bind_text(2, text).run();
}

Status remove(Database& database, std::string_view sql, const std::string& relay) {
  Result<Statement> remove = database.prepare(sql);
  if (!remove) return fail(remove.error());
  return remove->bind_text(1, relay).run();
}

}  // namespace

Result<bool> has_owner(const std::string& path, const std::string& relay, Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  const Result<Row> row = read_row(*database, relay, clock);
  if (!row) return fail(row.error());
  return row->has_owner;
}

Result<SeekCounts> write_seek(const std::string& path, const std::string& relay, const SeekTo& to,
                              const std::string& reason, Hold after, bool dry_run, Clock& clock) {
  DOVETAIL_TRY(check_reason(reason));
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  std::optional<Transaction> transaction;
  if (!dry_run) {
    Result<Transaction> begun = Transaction::begin(database->get(), "moving a relay");
    if (!begun) return fail(begun.error());
    transaction.emplace(std::move(*begun));
  }
  const Result<Row> row = read_row(*database, relay, clock);
  if (!row) return fail(row.error());
  if (!dry_run && row->has_owner)
    return fail(Errc::rejected, "the relay \"" + relay +
                                    "\" runs, and would send on from where it is; pause it first, "
                                    "and wait until it is paused");
  const std::string table(table_of(row->source));
  const Result<std::int64_t> target = last_before(*database, table, to);
  if (!target) return fail(target.error());
  Result<SeekCounts> counts = count_seek(*database, *row, relay, *target);
  if (!counts || dry_run) return counts;
  Result<Statement> update = database->prepare(
      "UPDATE dovetail_relay SET passed_seq = ?2, owner = '', lease_expires = 0, epoch = epoch + "
      "1, skipped_total = skipped_total + ?3, hold = ?4, hold_since = CASE ?4 WHEN '' THEN 0 ELSE "
      "hold_since END, hold_by = CASE ?4 WHEN '' THEN '' ELSE hold_by END, hold_reason = CASE ?4 "
      "WHEN '' THEN '' ELSE hold_reason END WHERE relay = ?1");
  if (!update) return fail(update.error());
  DOVETAIL_TRY(update->bind_text(1, relay)
                   .bind(2, *target)
                   .bind(3, static_cast<std::int64_t>(counts->skipped))
                   .bind_text(4, to_string(after))
                   .run());
  // What is before it now comes again.
  Result<Statement> cut =
      database->prepare("UPDATE dovetail_relay_skip SET to_seq = min(to_seq, ?2) WHERE relay = ?1");
  if (!cut) return fail(cut.error());
  DOVETAIL_TRY(cut->bind_text(1, relay).bind(2, *target).run());
  Result<Statement> skip = database->prepare(
      "INSERT INTO dovetail_relay_skip (relay, from_seq, to_seq) SELECT ?1, ?2, ?3 WHERE ?3 > ?2");
  if (!skip) return fail(skip.error());
  DOVETAIL_TRY(skip->bind_text(1, relay).bind(2, row->passed).bind(3, *target).run());
  const std::string subject = "after " + std::to_string(*target) + ": " +
                              std::to_string(counts->again) + " again, " +
                              std::to_string(counts->skipped) + " skipped";
  DOVETAIL_TRY(write_audit(*database,
                           {.what = "seek",
                            .relay = relay,
                            .subject = subject,
                            .events = counts->again + counts->skipped,
                            .reason = reason},
                           clock));
  DOVETAIL_TRY(transaction->commit("moving a relay"));
  return counts;
}

Status write_rename(const std::string& path, const std::string& relay, const std::string& new_name,
                    const std::string& reason, Clock& clock) {
  DOVETAIL_TRY(check_reason(reason));
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Transaction> transaction = Transaction::begin(database->get(), "renaming a relay");
  if (!transaction) return fail(transaction.error());
  const Result<Row> row = read_row(*database, relay, clock);
  if (!row) return fail(row.error());
  DOVETAIL_TRY(check_stopped(*row, relay));
  Result<Statement> select = database->prepare(
      "SELECT EXISTS (SELECT 1 FROM dovetail_relay WHERE relay = ?2) OR EXISTS (SELECT 1 FROM "
      "dovetail_parked WHERE relay = ?2), EXISTS (SELECT 1 FROM dovetail_consumer WHERE name = "
      "?1)");
  if (!select) return fail(select.error());
  const Result<bool> found = select->bind_text(1, relay).bind_text(2, new_name).step();
  if (!found) return fail(found.error());
  if (select->integer(0) != 0)
    return fail(Errc::rejected, "there is a relay \"" + new_name +
                                    "\" already, or was one whose parked events are kept; choose "
                                    "another name");
  if (select->integer(1) != 0)
    return fail(Errc::rejected, "\"" + relay +
                                    "\" is a consumer, whose inbox knows what it applied by this "
                                    "name; a consumer keeps its name");
  select->reset();
  for (const std::string_view sql :
       {"UPDATE dovetail_relay SET relay = ?2, epoch = epoch + 1 WHERE relay = ?1",
        "UPDATE dovetail_relay_skip SET relay = ?2 WHERE relay = ?1",
        "UPDATE dovetail_parked SET relay = ?2 WHERE relay = ?1"})
    DOVETAIL_TRY(update_text(*database, sql, relay, new_name));
  DOVETAIL_TRY(remove(*database, "DELETE FROM dovetail_relay_state WHERE relay = ?1", relay));
  DOVETAIL_TRY(write_audit(
      *database,
      {.what = "rename", .relay = new_name, .subject = relay + " -> " + new_name, .reason = reason},
      clock));
  return transaction->commit("renaming a relay");
}

Status write_forget(const std::string& path, const std::string& relay, const std::string& reason,
                    Clock& clock) {
  DOVETAIL_TRY(check_reason(reason));
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Transaction> transaction = Transaction::begin(database->get(), "forgetting a relay");
  if (!transaction) return fail(transaction.error());
  const Result<Row> row = read_row(*database, relay, clock);
  if (!row) return fail(row.error());
  DOVETAIL_TRY(check_stopped(*row, relay));
  Result<Statement> select = database->prepare(
      "SELECT EXISTS (SELECT 1 FROM dovetail_parked WHERE relay = ?1 AND finished_at = 0)");
  if (select) select->bind_text(1, relay);
  const Result<std::int64_t> parked = one_number(std::move(select));
  if (!parked) return fail(parked.error());
  if (*parked != 0)
    return fail(Errc::rejected, "the relay \"" + relay +
                                    "\" has parked events; replay or discard them first: "
                                    "`dovetail parked list`");
  for (const std::string_view sql : {"DELETE FROM dovetail_relay WHERE relay = ?1",
                                     "DELETE FROM dovetail_relay_skip WHERE relay = ?1",
                                     "DELETE FROM dovetail_relay_state WHERE relay = ?1"})
    DOVETAIL_TRY(remove(*database, sql, relay));
  DOVETAIL_TRY(
      write_audit(*database, {.what = "forget relay", .relay = relay, .reason = reason}, clock));
  return transaction->commit("forgetting a relay");
}

Status write_hold(const std::string& path, const std::string& relay, Hold hold,
                  const std::string& reason, Clock& clock) {
  DOVETAIL_TRY(check_reason(reason));
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Transaction> transaction = Transaction::begin(database->get(), "steering a relay");
  if (!transaction) return fail(transaction.error());
  const Result<Row> row = read_row(*database, relay, clock);
  if (!row) return fail(row.error());
  const Hold before = row->hold;
  if (before == hold || (before == Hold::drained && hold == Hold::draining)) return {};
  const bool holds = hold != Hold::none;
  Result<Statement> update = database->prepare(
      "UPDATE dovetail_relay SET hold = ?2, hold_since = ?3, hold_by = ?4, hold_reason = ?5 WHERE "
      "relay = ?1");
  if (!update) return fail(update.error());
  DOVETAIL_TRY(update->bind_text(1, relay)
                   .bind_text(2, to_string(hold))
                   .bind(3, holds ? to_stored(clock.wall()) : 0)
                   .bind_text(4, holds ? user_name() : std::string())
                   .bind_text(5, holds ? reason : std::string())
                   .run());
  DOVETAIL_TRY(write_audit(
      *database, {.what = std::string(word_for(hold)), .relay = relay, .reason = reason}, clock));
  return transaction->commit("steering a relay");
}

}  // namespace dovetail::sqlite
