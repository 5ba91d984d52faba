#include "sqlite/operate/audit.h"

#include <pwd.h>
#include <unistd.h>

#include "host/host.h"
#include "sqlite/operate/admin.h"

namespace dovetail::sqlite {

std::string user_name() {
  char buffer[4096];
  passwd entry{};
  passwd* found = nullptr;
  const uid_t user = ::geteuid();
  if (::getpwuid_r(user, &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr)
    return found->pw_name;
  return "user " + std::to_string(user);
}

Status write_audit(Database& database, const AuditRow& row, Clock& clock) {
  Result<Statement> insert = database.prepare(
      "INSERT INTO dovetail_audit (at, who, what, relay, subject, events, reason) VALUES (?1, ?2, "
      "?3, ?4, ?5, ?6, ?7)");
  if (!insert) return fail(insert.error());
  return insert->bind(1, to_stored(clock.wall()))
      .bind_text(2, user_name())
      .bind_text(3, row.what)
      .bind_text(4, row.relay)
      .bind_text(5, row.subject)
      .bind(6, static_cast<std::int64_t>(row.events))
      .bind_text(7, row.reason)
      .run();
}

Result<std::vector<AuditRow>> list_audit(const std::string& path, std::size_t limit,
                                         std::string_view subject) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Statement> select = database->prepare(
      "SELECT number, at, who, what, relay, subject, events, reason FROM dovetail_audit WHERE ?2 "
      "= "
      "'' OR subject = ?2 ORDER BY number DESC LIMIT ?1");
  if (!select) return fail(select.error());
  select->bind(1, static_cast<std::int64_t>(limit)).bind_text(2, subject);
  std::vector<AuditRow> rows;
  while (true) {
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) return rows;
    rows.push_back(AuditRow{
        select->integer(0), from_stored(select->integer(1)), std::string(select->bytes(2)),
        std::string(select->bytes(3)), std::string(select->bytes(4)), std::string(select->bytes(5)),
        static_cast<std::uint64_t>(select->integer(6)), std::string(select->bytes(7))});
  }
}

Result<std::string> retarget(const std::string& path, const std::string& reader,
                             const std::string& target, const std::string& reason, Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Transaction> transaction = Transaction::begin(database->get(), "changing the target");
  if (!transaction) return fail(transaction.error());
  Result<Statement> select = database->prepare(
      "SELECT target, owner <> '' AND lease_boot = ?2 AND lease_expires > ?3 FROM dovetail_relay "
      "WHERE relay = ?1");
  if (!select) return fail(select.error());
  select->bind_text(1, reader)
      .bind_text(2, boot_id())
      .bind(3, clock.now().time_since_epoch().count());
  const Result<bool> row = select->step();
  if (!row) return fail(row.error());
  if (!*row)
    return fail(Errc::rejected,
                "this file has no relay \"" + reader + "\"; check the name with `dovetail status`");
  if (select->integer(1) != 0)
    return fail(Errc::rejected,
                "the relay \"" + reader +
                    "\" is running with its old target; stop every process that runs "
                    "it, then try again");
  std::string before(select->bytes(0));
  select->reset();
  Result<Statement> update =
      database->prepare("UPDATE dovetail_relay SET target = ?2 WHERE relay = ?1");
  if (!update) return fail(update.error());
  DOVETAIL_TRY(update->bind_text(1, reader).bind_text(2, target).run());
  DOVETAIL_TRY(write_audit(
      *database,
      {.what = "retarget", .relay = reader, .subject = before + " -> " + target, .reason = reason},
      clock));
  DOVETAIL_TRY(transaction->commit("changing the target"));
  return before;
}

}  // namespace dovetail::sqlite
