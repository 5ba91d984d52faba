// What an operator decides about an inbox.
#include "sqlite/connection/database.h"
#include "sqlite/operate/admin.h"

namespace dovetail::sqlite {

namespace {

Status check_reason(const Decision& decision) {
  if (decision.reason.find_first_not_of(" \t\r\n") != std::string::npos) return {};
  return fail(Errc::rejected, "this needs a reason, which is recorded; say what you have checked");
}

Status write_audit(Database& database, const Decision& decision, std::string_view what,
                   std::string_view subject, Clock& clock) {
  Statement add;
  DOVETAIL_TRY(database.prepare(
      add,
      "INSERT INTO dovetail_audit (at, who, what, subject, reason) VALUES (?1, ?2, ?3, ?4, ?5)"));
  const std::string who = stored_reason(decision.who);
  const std::string reason = stored_reason(decision.reason);
  add.bind(1, to_stored(clock.wall())).bind_text(2, who).bind_text(3, what).bind_text(4, subject);
  return add.bind_text(5, reason).run();
}

}  // namespace

Result<std::uint64_t> apply_event(const std::string& path, std::string_view consumer,
                                  const EventId& id, const Decision& decision, Clock& clock) {
  DOVETAIL_TRY(check_reason(decision));
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Transaction> transaction = Transaction::begin(database->get(), "deciding about an event");
  if (!transaction) return fail(transaction.error());
  Statement known;
  DOVETAIL_TRY(database->prepare(
      known,
      "SELECT count(*) FROM dovetail_consumer WHERE name = ?1 OR substr(name, 1, length(?1) + 1) = "
      "?1 || '.'"));
  const Result<bool> row = known.bind_text(1, consumer).step();
  if (!row) return fail(row.error());
  if (known.integer(0) == 0)
    return fail(Errc::rejected, "this file has no consumer \"" + std::string(consumer) +
                                    "\"; check the name with `dovetail status`");
  known.reset();
  Statement allow;
  DOVETAIL_TRY(database->prepare(
      allow,
      "INSERT INTO dovetail_unapplied (consumer_id, event_id, since, by_operator) SELECT c.id, ?2, "
      "?3, 1 FROM dovetail_consumer AS c WHERE (c.name = ?1 OR substr(c.name, 1, length(?1) + 1) = "
      "?1 || '.') AND NOT EXISTS (SELECT 1 FROM dovetail_inbox AS i WHERE i.consumer_id = c.id AND "
      "i.event_id = ?2) ON CONFLICT (consumer_id, event_id) DO UPDATE SET by_operator = 1, since = "
      "?3"));
  DOVETAIL_TRY(allow.bind_text(1, consumer).bind_id(2, id).bind(3, to_stored(clock.wall())).run());
  const auto allowed = static_cast<std::uint64_t>(allow.changes());
  const std::string subject = std::string(consumer) + " " + id.to_string();
  if (allowed > 0) DOVETAIL_TRY(write_audit(*database, decision, "apply", subject, clock));
  DOVETAIL_TRY(transaction->commit("deciding about an event"));
  return allowed;
}

Result<WallTime> remember_since(const std::string& path, WallTime since, const Decision& decision,
                                Clock& clock) {
  DOVETAIL_TRY(check_reason(decision));
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Transaction> transaction = Transaction::begin(database->get(), "repairing the inbox");
  if (!transaction) return fail(transaction.error());
  Statement select;
  DOVETAIL_TRY(
      database->prepare(select, "SELECT coalesce(max(forgotten_until), 0) FROM dovetail_consumer"));
  const Result<bool> row = select.step();
  if (!row) return fail(row.error());
  const WallTime before = from_stored(select.integer(0));
  select.reset();
  if (since >= before)
    return fail(Errc::rejected,
                "the inbox has forgotten nothing since that time, so nothing changes; give "
                "an earlier time");
  Statement lower;
  DOVETAIL_TRY(database->prepare(
      lower, "UPDATE dovetail_consumer SET forgotten_until = ?1 WHERE forgotten_until > ?1"));
  DOVETAIL_TRY(lower.bind(1, to_stored(since)).run());
  DOVETAIL_TRY(write_audit(*database, decision, "remember",
                           "since " + std::to_string(to_stored(since)) + " instead of " +
                               std::to_string(to_stored(before)),
                           clock));
  DOVETAIL_TRY(transaction->commit("repairing the inbox"));
  return before;
}

}  // namespace dovetail::sqlite
