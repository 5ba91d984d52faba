#include "postgres/operate/relay_control.h"

#include <optional>

#include "postgres/connection/connection.h"
#include "postgres/connection/session.h"
#include "postgres/lane/lease.h"
#include "postgres/schema/schema.h"
#include "sql/operate/relay_control.h"

namespace dovetail::postgres {

namespace {

Result<Connection> open_store(const std::string& url) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  return connection;
}

// $1 relay, $2 time. Returns the number before the first event of this time or later.
constexpr std::string_view kBefore =
    "SELECT min(seq) - 1 FROM dovetail.outbox WHERE created_at >= $2";

Result<std::string> one_text(const std::string& url, std::string_view sql, const Params& params) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query(sql, params);
  if (!rows) return fail(rows.error());
  return std::string(rows->text(0, 0));
}

}  // namespace

Status write_hold(const std::string& url, const std::string& relay, Hold hold,
                  const std::string& reason) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows =
      connection->query("SELECT dovetail.hold_relay($1, $2, $3)",
                        Params().text(relay).text(to_string(hold)).text(reason));
  if (!rows) return fail(rows.error());
  return {};
}

Result<bool> has_owner(const std::string& url, const std::string& relay) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  static const std::string select =
      "SELECT EXISTS (SELECT FROM dovetail.relay_lane AS r WHERE r.relay = $1 AND " +
      std::string(kIsHeld) + ")";
  const Result<Rows> rows = connection->query(select, Params().text(relay));
  if (!rows) return fail(rows.error());
  return rows->boolean(0, 0);
}

Result<SeekCounts> write_seek(const std::string& url, const std::string& relay, const SeekTo& to,
                              const std::string& reason, Hold after, bool dry_run) {
  Result<Connection> connection = open_store(url);
  if (!connection) return fail(connection.error());
  PostgresSession session(*connection);
  const Result<std::optional<std::int64_t>> target = last_before(session, kBefore, relay, to);
  if (!target) return fail(target.error());
  Params params;
  params.text(relay);
  if (*target) {
    params.int8(**target);
  } else {
    params.null();
  }
  params.text(reason).text(to_string(after)).boolean(dry_run);
  const Result<Rows> rows = connection->query(
      "SELECT again, skipped, discarded FROM dovetail.seek_relay($1, $2::int8, $3, $4, $5)",
      params);
  if (!rows) return fail(rows.error());
  const auto count = [&](int column) { return static_cast<std::uint64_t>(rows->int8(0, column)); };
  return SeekCounts{count(0), count(1), count(2)};
}

Result<std::string> write_rename(const std::string& url, const std::string& relay,
                                 const std::string& new_name, const std::string& reason) {
  return one_text(url, "SELECT dovetail.rename_relay($1, $2, $3)",
                  Params().text(relay).text(new_name).text(reason));
}

Result<std::string> write_forget(const std::string& url, const std::string& relay,
                                 const std::string& reason) {
  return one_text(url, "SELECT dovetail.forget_relay($1, $2)", Params().text(relay).text(reason));
}

}  // namespace dovetail::postgres
