#include "sql/first_start.h"

#include <optional>

#include "core/relay/target.h"

namespace dovetail {

namespace {

struct Started {
  std::uint32_t lanes = 0;
  std::string target{};
  bool is_kept = false;
};

std::string_view shown(SourceKind source) {
  switch (source) {
    case SourceKind::outbox:
      return "the outbox";
    case SourceKind::mailbox:
      return "the mailbox";
    case SourceKind::mapped:
      return "a mapped table";
    case SourceKind::broker:
      break;
  }
  return "a broker";
}

// Empty: never started.
Result<std::optional<Started>> find(SqlSession& session, const FirstStartStatements& sql,
                                    const FirstStart& start, const Carried& carried) {
  const Result<SqlRows> rows = session.run(
      sql.find, SqlParams().text(start.relay).text(carried.filter).text(carried.topics));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return std::nullopt;
  const SourceKind source = parse_source_kind(rows->bytes(0, 0));
  if (source != start.source)
    return fail(Errc::rejected, "the relay \"" + std::string(start.relay) +
                                    "\" was first started to read " + std::string(shown(source)) +
                                    ", not " + std::string(shown(start.source)) +
                                    "; give it another name, or remove the old one with `dovetail "
                                    "relay forget`");
  return Started{static_cast<std::uint32_t>(rows->integer(0, 1)), rows->bytes(0, 2),
                 rows->boolean(0, 3)};
}

// With two first starts at a time, the second finds the rows of the first.
Status add_rows(SqlSession& session, const FirstStartStatements& sql, const FirstStart& start,
                const Carried& carried) {
  Result<SqlTransaction> transaction = SqlTransaction::begin(session, "starting a relay");
  if (!transaction) return fail(transaction.error());
  if (!sql.lock.empty()) {
    const Result<SqlRows> locked = session.run(sql.lock);
    if (!locked) return fail(locked.error());
  }
  const Result<std::optional<Started>> meanwhile = find(session, sql, start, carried);
  if (!meanwhile) return fail(meanwhile.error());
  if (*meanwhile) return {};
  const bool has_positions =
      start.source == SourceKind::outbox || start.source == SourceKind::mailbox;
  const Result<SqlRows> added =
      session.run(start.starts_now && has_positions ? sql.start_now : sql.start,
                  SqlParams().text(start.relay).integer(start.lanes).text(to_string(start.source)));
  if (!added) return fail(added.error());
  return transaction->commit();
}

Status write(SqlSession& session, std::string_view statement, const SqlParams& params) {
  const Result<SqlRows> written = session.run(statement, params);
  if (!written) return fail(written.error());
  return {};
}

}  // namespace

Result<std::uint32_t> start_relay(SqlSession& session, const FirstStartStatements& sql,
                                  const FirstStart& start, const Carried* carried) {
  if (start.relay.empty() || start.relay.size() > 255 || start.lanes == 0 ||
      start.lanes > kLanesMax)
    return fail(
        Errc::rejected,
        "a relay must have a name of 1 to 255 bytes and 1 to 256 lanes; check its settings");
  const Carried wanted = carried == nullptr ? Carried{} : *carried;
  Result<std::optional<Started>> found = find(session, sql, start, wanted);
  if (!found) return fail(found.error());
  if (!*found) {
    DOVETAIL_TRY(add_rows(session, sql, start, wanted));
    found = find(session, sql, start, wanted);
    if (!found) return fail(found.error());
  }
  if (*found && (*found)->target.empty() && !start.target.empty()) {
    DOVETAIL_TRY(write(session, sql.bind, SqlParams().text(start.relay).text(start.target)));
    // With two first starts and different targets, only one is written.
    found = find(session, sql, start, wanted);
    if (!found) return fail(found.error());
  }
  if (!*found)
    return fail(Errc::unavailable, "the relay \"" + std::string(start.relay) +
                                       "\" was removed while it started; it starts again");
  const Started& there = **found;
  if (!start.target.empty() && there.target != start.target)
    return fail(other_target(start.relay, there.target, start.target));
  if (carried != nullptr && !there.is_kept)
    DOVETAIL_TRY(write(session, sql.keep,
                       SqlParams().text(start.relay).text(carried->filter).text(carried->topics)));
  return there.lanes;
}

}  // namespace dovetail
