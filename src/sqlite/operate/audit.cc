#include "sqlite/operate/audit.h"

#include "host/host.h"
#include "sqlite/operate/admin.h"

namespace dovetail::sqlite {

Status write_audit(Database& database, const AuditRow& row, Clock& clock) {
  Result<Statement> insert = database.prepare(
      "INSERT INTO dovetail_audit (at, who, what, relay, subject, events, reason) VALUES (?1, ?2, "
      "?3, ?4, ?5, ?6, ?7)");
  if (!insert) return fail(insert.error());
  const std::string who = user_name();
  return insert->bind(1, to_stored(clock.wall()))
      .bind_text(2, who)
      .bind_text(3, row.what)
      .bind_text(4, row.relay)
      .bind_text(5, row.subject)
      .bind(6, static_cast<std::int64_t>(row.events))
      .bind_text(7, row.reason)
      .run();
}

Status note_reveal(const std::string& path, const EventId& id, std::string_view reason,
                   Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  return write_audit(
      *database,
      {.what = "reveal", .subject = id.to_string(), .events = 1, .reason = std::string(reason)},
      clock);
}

}  // namespace dovetail::sqlite
