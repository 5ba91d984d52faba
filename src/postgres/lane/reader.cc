#include "postgres/lane/reader.h"

#include <algorithm>

#include "postgres/connection/session.h"
#include "postgres/lane/statements.h"
#include "postgres/schema/schema.h"
#include "sql/lane.h"

namespace dovetail::postgres {

Error taken_over(const Reader& reader) {
  std::int64_t epoch = reader.epoch;
  return dovetail::taken_over(
      SqlLane{reader.relay, reader.target, epoch, reader.lane, reader.lanes});
}

Result<std::string> server_run(Connection& connection) {
  static const std::string read = "SELECT " + kServerRun;
  for (int i = 0; i < 2; ++i) {
    const Result<Rows> rows = connection.query(read);
    if (!rows) return fail(rows.error());
    if (!rows->is_null(0, 0)) return std::string(rows->text(0, 0));
    const Result<Rows> marked = connection.query("SELECT dovetail.mark_server()");
    if (!marked) return fail(marked.error());
  }
  return fail(run_has_ended());
}

Error run_has_ended() {
  return Error{Errc::unavailable,
               "the server restarted or crashed since its tables were read; the relay reads them "
               "again from its recorded progress; check the server's log"};
}

Error not_written(Reader& reader, std::string_view of) {
  const Result<std::string> run = server_run(reader.connection);
  if (!run) return run.error();
  return *run == of ? taken_over(reader) : run_has_ended();
}

Result<std::uint32_t> ensure_relay(Connection& connection, const FirstStart& start,
                                   const Carried* carried) {
  PostgresSession session(connection);
  return start_relay(session, first_start_statements(), start, carried);
}

Duration call_max_of(Duration lease_term) {
  return std::max<Duration>(lease_term / 3, std::chrono::seconds(3));
}

Status connect(Reader& reader) {
  if (reader.connection) return {};
  Result<Connection> opened =
      Connection::open(reader.conninfo, std::min(kConnectMax, reader.call_max));
  if (!opened) return fail(opened.error());
  opened->set_timeout(reader.call_max);
  const Result<Rows> recovery = opened->query("SELECT pg_is_in_recovery()");
  if (!recovery) return fail(recovery.error());
  if (recovery->boolean(0, 0))
    return fail(Errc::unavailable,
                "the server is a standby, which shows commits in another order than they happened; "
                "connect to the primary (target_session_attrs=read-write)");
  DOVETAIL_TRY(check_schema(*opened));
  const Result<std::uint32_t> lanes = ensure_relay(*opened, {.relay = reader.relay,
                                                             .source = reader.source,
                                                             .lanes = reader.lanes,
                                                             .target = reader.target});
  if (!lanes) return fail(lanes.error());
  if (*lanes != reader.lanes || reader.lane >= reader.lanes)
    return fail(Errc::rejected, "relay \"" + reader.relay + "\" was first started with " +
                                    std::to_string(*lanes) + " lanes, not " +
                                    std::to_string(reader.lanes) +
                                    "; check its settings, or give it another name");
  reader.connection = std::move(*opened);
  ++reader.generation;
  return {};
}

Event read_event(const Rows& rows, std::size_t row) {
  Event event;
  event.position = rows.int8(row, 0);
  event.id = rows.uuid(row, 1);
  event.topic = rows.text(row, 2);
  event.aggregate_type = rows.text(row, 3);
  event.aggregate_id = rows.text(row, 4);
  event.type = rows.text(row, 5);
  event.content_type = rows.text(row, 6);
  event.headers = rows.text(row, 7);
  event.payload = rows.bytea(row, 8);
  event.aggregate_version = rows.int8(row, 9);
  event.created_at = rows.timestamptz(row, 10);
  return event;
}

}  // namespace dovetail::postgres
