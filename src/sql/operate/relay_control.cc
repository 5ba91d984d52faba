#include "sql/operate/relay_control.h"

#include <algorithm>
#include <utility>

#include "sql/operate/relay_plans.h"

namespace dovetail {

namespace {

constexpr std::string_view kOrderNeedsReason = "this needs a reason, which is kept; say why";

std::string_view word_for(Hold hold) {
  if (hold == Hold::none) return "resume";
  return hold == Hold::paused ? "pause" : "drain";
}

}  // namespace

Result<std::optional<std::int64_t>> last_before(SqlSession& session, std::string_view before,
                                                const std::string& relay, const SeekTo& to) {
  if (to.kind == SeekTo::Kind::now) return std::nullopt;
  if (to.kind == SeekTo::Kind::beginning) return 0;
  if (to.kind == SeekTo::Kind::position) return std::max<std::int64_t>(to.position - 1, 0);
  const Result<SqlRows> rows = session.run(before, SqlParams().text(relay).time(to.time));
  if (!rows) return fail(rows.error());
  if (rows->is_null(0, 0)) return std::nullopt;
  return rows->integer(0, 0);
}

Result<RelayControl::Row> RelayControl::find(const std::string& relay) {
  const Result<SqlRows> rows = session_.run(sql_.find, SqlParams().text(relay));
  if (!rows) return fail(rows.error());
  if (rows->empty())
    return fail(Errc::rejected, "no relay or consumer \"" + relay +
                                    "\" has run on this store; check the name with `dovetail "
                                    "status`");
  return Row{parse_hold(rows->bytes(0, 0)), rows->boolean(0, 1), rows->integer(0, 2)};
}

// A relay that is held runs without a lease, so that nobody can see it.
Status RelayControl::check_stopped(const std::string& relay) {
  const Result<Row> row = find(relay);
  if (!row) return fail(row.error());
  if (row->hold != Hold::none)
    return fail(Errc::rejected, "the relay \"" + relay +
                                    "\" is paused or drained, so nobody can see whether a process "
                                    "still has it; stop its processes, then resume it");
  if (!row->has_owner) return {};
  return fail(Errc::rejected, "the relay \"" + relay +
                                  "\" runs; stop every process that runs it, wait until its lease "
                                  "has run out, then try again");
}

Result<std::int64_t> RelayControl::number(std::string_view statement, const SqlParams& params) {
  const Result<SqlRows> rows = session_.run(statement, params);
  if (!rows) return fail(rows.error());
  return rows->integer(0, 0);
}

Status RelayControl::run(std::string_view statement, const SqlParams& params) {
  const Result<SqlRows> done = session_.run(statement, params);
  if (!done) return fail(done.error());
  return {};
}

Result<bool> RelayControl::has_owner(const std::string& relay) {
  const Result<Row> row = find(relay);
  if (!row) return fail(row.error());
  return row->has_owner;
}

Status RelayControl::hold(const std::string& relay, Hold wanted, const std::string& reason) {
  DOVETAIL_TRY(check_reason(reason, kOrderNeedsReason));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session_, "steering a relay");
  if (!transaction) return fail(transaction.error());
  const Result<Row> row = find(relay);
  if (!row) return fail(row.error());
  if (has_order(row->hold, wanted)) return {};
  DOVETAIL_TRY(run(sql_.hold, SqlParams().text(relay).text(to_string(wanted)).text(reason)));
  DOVETAIL_TRY(
      add_audit(session_, sql_.audit,
                {.what = std::string(word_for(wanted)), .relay = relay, .reason = reason}));
  return transaction->commit();
}

Result<std::uint64_t> RelayControl::count(const std::string& relay, std::int64_t after,
                                          std::int64_t upto) {
  if (upto <= after) return 0;
  const Result<std::int64_t> events =
      number(sql_.count, SqlParams().text(relay).integer(after).integer(upto));
  if (!events) return fail(events.error());
  return static_cast<std::uint64_t>(*events);
}

Result<SeekCounts> RelayControl::count_seek(const std::string& relay, std::int64_t from,
                                            std::int64_t to) {
  const Result<std::uint64_t> again = count(relay, to, from);
  if (!again) return fail(again.error());
  const Result<std::uint64_t> skipped = count(relay, from, to);
  if (!skipped) return fail(skipped.error());
  const Result<std::int64_t> discarded =
      number(sql_.count_discarded, SqlParams().text(relay).integer(to));
  if (!discarded) return fail(discarded.error());
  return SeekCounts{*again, *skipped, static_cast<std::uint64_t>(*discarded)};
}

Status RelayControl::move(const std::string& relay, std::int64_t from, std::int64_t to,
                          const SeekCounts& counts, Hold after) {
  DOVETAIL_TRY(run(sql_.move, SqlParams()
                                  .text(relay)
                                  .integer(to)
                                  .integer(static_cast<std::int64_t>(counts.skipped))
                                  .text(to_string(after))));
  // What is before it now comes again.
  DOVETAIL_TRY(run(sql_.cut_skips, SqlParams().text(relay).integer(to)));
  if (to <= from) return {};
  return run(sql_.add_skip, SqlParams().text(relay).integer(from).integer(to));
}

Result<SeekCounts> RelayControl::seek(const std::string& relay, const SeekTo& to,
                                      const std::string& reason, Hold after, bool dry_run) {
  DOVETAIL_TRY(check_reason(reason, kOrderNeedsReason));
  std::optional<SqlTransaction> transaction;
  if (!dry_run) {
    Result<SqlTransaction> begun = SqlTransaction::begin(session_, "moving a relay");
    if (!begun) return fail(begun.error());
    transaction.emplace(std::move(*begun));
  }
  const Result<Row> row = find(relay);
  if (!row) return fail(row.error());
  if (!dry_run && row->has_owner)
    return fail(Errc::rejected, "the relay \"" + relay +
                                    "\" runs, and would send on from where it is; pause it first, "
                                    "and wait until it is paused");
  Result<std::optional<std::int64_t>> passed = last_before(session_, sql_.before, relay, to);
  if (!passed) return fail(passed.error());
  if (!*passed) {
    const Result<std::int64_t> last = number(sql_.last, SqlParams().text(relay));
    if (!last) return fail(last.error());
    passed = *last;
  }
  const std::int64_t target = **passed;
  Result<SeekCounts> counts = count_seek(relay, row->passed, target);
  if (!counts || dry_run) return counts;
  DOVETAIL_TRY(move(relay, row->passed, target, *counts, after));
  const std::string subject = "after " + std::to_string(target) + ": " +
                              std::to_string(counts->again) + " again, " +
                              std::to_string(counts->skipped) + " skipped";
  DOVETAIL_TRY(add_audit(session_, sql_.audit,
                         {.what = "seek",
                          .relay = relay,
                          .subject = subject,
                          .events = counts->again + counts->skipped,
                          .reason = reason}));
  DOVETAIL_TRY(transaction->commit());
  return counts;
}

Status RelayControl::rename(const std::string& relay, const std::string& new_name,
                            const std::string& reason) {
  DOVETAIL_TRY(check_reason(reason, kOrderNeedsReason));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session_, "renaming a relay");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(check_stopped(relay));
  const SqlParams both = SqlParams().text(relay).text(new_name);
  const Result<SqlRows> names = session_.run(sql_.names, both);
  if (!names) return fail(names.error());
  if (names->boolean(0, 0))
    return fail(Errc::rejected, "there is a relay \"" + new_name +
                                    "\" already, or was one whose parked events are kept; choose "
                                    "another name");
  if (names->boolean(0, 1))
    return fail(Errc::rejected, "\"" + relay +
                                    "\" is a consumer, whose inbox knows what it applied by this "
                                    "name; a consumer keeps its name");
  for (const std::string& statement : sql_.rename) DOVETAIL_TRY(run(statement, both));
  DOVETAIL_TRY(add_audit(session_, sql_.audit,
                         {.what = "rename",
                          .relay = new_name,
                          .subject = relay + " -> " + new_name,
                          .reason = reason}));
  return transaction->commit();
}

Status RelayControl::forget(const std::string& relay, const std::string& reason) {
  DOVETAIL_TRY(check_reason(reason, kOrderNeedsReason));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session_, "forgetting a relay");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(check_stopped(relay));
  const Result<std::int64_t> parked = number(sql_.has_parked, SqlParams().text(relay));
  if (!parked) return fail(parked.error());
  if (*parked != 0)
    return fail(Errc::rejected, "the relay \"" + relay +
                                    "\" has parked events; replay or discard them first: "
                                    "`dovetail parked list`");
  for (const std::string& statement : sql_.forget)
    DOVETAIL_TRY(run(statement, SqlParams().text(relay)));
  DOVETAIL_TRY(
      add_audit(session_, sql_.audit, {.what = "forget relay", .relay = relay, .reason = reason}));
  return transaction->commit();
}

}  // namespace dovetail
