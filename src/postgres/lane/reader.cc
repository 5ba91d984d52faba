#include "postgres/lane/reader.h"

#include <algorithm>

#include "core/relay/target.h"
#include "postgres/schema/schema.h"
#include "sql/lane.h"

namespace dovetail::postgres {

namespace {

std::string_view shown(SourceKind source) {
  if (source == SourceKind::broker) return "a broker";
  return source == SourceKind::mapped ? "a mapped table" : "dovetail.outbox";
}

// 0: never started. rejected: a relay of this name reads something else.
Result<std::uint32_t> stored_lanes(Connection& connection, const std::string& relay,
                                   SourceKind source) {
  const Result<Rows> rows =
      connection.query("SELECT lanes, source FROM dovetail.relay_lane WHERE relay = $1 LIMIT 1",
                       Params().text(relay));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return 0;
  const SourceKind there = parse_source_kind(rows->text(0, 1));
  if (there != source)
    return fail(Errc::rejected, "the relay \"" + relay + "\" was first started to serve " +
                                    std::string(shown(there)) + ", not " +
                                    std::string(shown(source)) +
                                    "; give it another name, or delete its rows from "
                                    "dovetail.relay_lane");
  return static_cast<std::uint32_t>(rows->int4(0, 0));
}

}  // namespace

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

// $1 relay, $2 lanes, $3 source. Two statements, because a relay of a mapped table has no right to
// the outbox's sequence.
constexpr std::string_view kStartAtTheBeginning =
    "INSERT INTO dovetail.relay_lane (relay, lane, lanes, source, window_start, passed_seq, "
    "system_identifier) SELECT $1, lane, $2, $3, '1:1:', 0, 0 FROM generate_series(0, $2 - 1) AS "
    "lane";
constexpr std::string_view kStartNow =
    "INSERT INTO dovetail.relay_lane (relay, lane, lanes, source, window_start, passed_seq, "
    "system_identifier) SELECT $1, lane, $2, $3, pg_current_snapshot(), s.last_value, "
    "c.system_identifier FROM generate_series(0, $2 - 1) AS lane, dovetail.outbox_seq AS s, "
    "pg_control_system() AS c";

Result<std::uint32_t> ensure_relay(Connection& connection, const std::string& relay,
                                   std::uint32_t lanes, SourceKind source, bool starts_now) {
  if (relay.empty() || relay.size() > 255 || lanes == 0 || lanes > kKeyBuckets)
    return fail(
        Errc::rejected,
        "a relay must have a name of 1 to 255 bytes and 1 to 256 lanes; check its settings");
  const Result<std::uint32_t> there = stored_lanes(connection, relay, source);
  if (!there || *there != 0) return there;
  Result<Transaction> transaction = Transaction::begin(connection);
  if (!transaction) return fail(transaction.error());
  // With two first starts and different numbers of lanes, the second finds the rows of the first.
  const Result<Rows> lock =
      connection.query("SELECT pg_advisory_xact_lock(hashtextextended('dovetail.relay_lane', 0))");
  if (!lock) return fail(lock.error());
  const Result<std::uint32_t> meanwhile = stored_lanes(connection, relay, source);
  if (!meanwhile || *meanwhile != 0) return meanwhile;
  const Result<Rows> made = connection.query(
      starts_now ? kStartNow : kStartAtTheBeginning,
      Params().text(relay).int4(static_cast<std::int32_t>(lanes)).text(to_string(source)));
  if (!made) return fail(made.error());
  DOVETAIL_TRY(transaction->commit());
  return lanes;
}

Duration call_max_of(Duration lease_term) {
  return std::max<Duration>(lease_term / 3, std::chrono::seconds(3));
}

Status bind_target(Connection& connection, const std::string& relay, const std::string& target) {
  if (target.empty()) return {};
  constexpr std::string_view kBound =
      "SELECT target FROM dovetail.relay_lane WHERE relay = $1 ORDER BY target LIMIT 1";
  Result<Rows> bound = connection.query(kBound, Params().text(relay));
  if (!bound) return fail(bound.error());
  if (!bound->empty() && bound->text(0, 0).empty()) {
    // With two first starts and different targets, only one is written.
    const Result<Rows> written = connection.query(
        "UPDATE dovetail.relay_lane SET target = $2 WHERE relay = $1 AND target = ''",
        Params().text(relay).text(target));
    if (!written) return fail(written.error());
    bound = connection.query(kBound, Params().text(relay));
    if (!bound) return fail(bound.error());
  }
  if (bound->empty() || bound->text(0, 0) == target) return {};
  return fail(other_target(relay, bound->text(0, 0), target));
}

Status keep_filter(Connection& connection, const std::string& relay, const std::string& filter) {
  const Result<Rows> kept = connection.query(
      "UPDATE dovetail.relay_lane SET filter = nullif($2, '')::jsonb WHERE relay = $1 AND filter "
      "IS DISTINCT FROM nullif($2, '')::jsonb",
      Params().text(relay).text(filter));
  if (!kept) return fail(kept.error());
  return {};
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
  const Result<std::uint32_t> lanes =
      ensure_relay(*opened, reader.relay, reader.lanes, reader.source);
  if (!lanes) return fail(lanes.error());
  if (*lanes != reader.lanes || reader.lane >= reader.lanes)
    return fail(Errc::rejected, "relay \"" + reader.relay + "\" was first started with " +
                                    std::to_string(*lanes) + " lanes, not " +
                                    std::to_string(reader.lanes) +
                                    "; check its settings, or give it another name");
  DOVETAIL_TRY(bind_target(*opened, reader.relay, reader.target));
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
