#include "sqlite/operate/relay_control.h"

#include "host/host.h"
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

}  // namespace

Status write_hold(const std::string& path, const std::string& relay, Hold hold,
                  const std::string& reason, Clock& clock) {
  DOVETAIL_TRY(check_reason(reason));
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Transaction> transaction = Transaction::begin(database->get(), "steering a relay");
  if (!transaction) return fail(transaction.error());
  Result<Statement> select = database->prepare("SELECT hold FROM dovetail_relay WHERE relay = ?1");
  if (!select) return fail(select.error());
  const Result<bool> row = select->bind_text(1, relay).step();
  if (!row) return fail(row.error());
  if (!*row)
    return fail(Errc::rejected, "no relay or consumer \"" + relay +
                                    "\" has run on this file; check the name with `dovetail "
                                    "status`");
  const Hold before = parse_hold(select->bytes(0));
  select->reset();
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
