#include "postgres/stream/replication.h"

#include <libpq-fe.h>

#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <utility>

#include "core/check.h"
#include "host/errand.h"
#include "postgres/connection/connection.h"
#include "postgres/stream/pgoutput.h"

namespace dovetail::postgres {

namespace {

constexpr std::chrono::seconds kAnswerWithin{30};
constexpr std::chrono::milliseconds kCancelWithin{500};

constexpr std::string_view kRightsHint =
    "; allow the role to replicate: ALTER ROLE ... REPLICATION, or grant it your hoster's role for "
    "that";

constexpr std::string_view kPoolerText =
    "a pooler or proxy before the server does not support replication; set "
    "replication_url to the server itself";

// The text form of values, and the timeouts of this session, must not depend on settings of the
// role or the database.
constexpr std::string_view kSettings =
    "SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; "
    "SET extra_float_digits = 3; SET bytea_output = 'hex'; SET statement_timeout = 0; "
    "SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";
constexpr std::string_view kSettings14 = "; SET idle_session_timeout = 0";

// Waits for one result; null: timeout, or the connection is lost.
Rows next_result(pg_conn* connection, std::chrono::steady_clock::time_point end) {
  while (true) {
    const int unsent = PQflush(connection);
    if (unsent < 0) return {};
    if (unsent == 0 && PQisBusy(connection) == 0) return Rows(PQgetResult(connection));
    if (!wait_for_socket(connection, unsent == 1, end) || PQconsumeInput(connection) == 0)
      return {};
  }
}

Rows ask(pg_conn* connection, const std::string& command) {
  const auto end = std::chrono::steady_clock::now() + kAnswerWithin;
  if (PQsendQuery(connection, command.c_str()) != 1) return {};
  Rows first = next_result(connection, end);
  const ExecStatusType status = PQresultStatus(first.get());
  if (first.get() == nullptr || status == PGRES_COPY_BOTH) return first;
  // Reports the first error; else the last result.
  for (Rows next = next_result(connection, end); next.get() != nullptr;
       next = next_result(connection, end))
    if (PQresultStatus(first.get()) != PGRES_FATAL_ERROR) first = std::move(next);
  return first;
}

std::string sqlstate_of(const Rows& rows) {
  const char* field =
      rows.get() == nullptr ? nullptr : PQresultErrorField(rows.get(), PG_DIAG_SQLSTATE);
  return field == nullptr ? "" : field;
}

// A text for replication commands, whose only escape is a doubled quote.
std::string literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += c;
    if (c != '\0') out += c;
  }
  return out + '\'';
}

// Why the server accepts this role but not its replication. libpq does not give the code of that
// error, and its text is in the server's language. So the catalogue is asked.
Error why_refused(const std::string& conninfo, Error refused) {
  if (refused.text.find("startup parameter") != std::string::npos)
    return Error{Errc::rejected, std::string(kPoolerText)};
  Result<Connection> plain = Connection::open(conninfo);
  if (!plain) return refused;
  const Result<Rows> may = plain->query(
      "SELECT rolname::text, rolsuper OR rolreplication FROM pg_catalog.pg_roles "
      "WHERE rolname = session_user");
  if (!may || may->empty()) return refused;
  if (!may->boolean(0, 1) && refused.text.find("max_wal_senders") == std::string::npos)
    return Error{Errc::rejected, "the role \"" + std::string(may->text(0, 0)) +
                                     "\" may not replicate (" + refused.text + ")" +
                                     std::string(kRightsHint)};
  refused.text +=
      "; plain connections work, so check max_wal_senders, pg_hba.conf, and whether a "
      "pooler is before the server";
  return refused;
}

// The request uses its own connection, and libpq waits for its end without a limit.
void cancel_within(pg_conn* connection, std::chrono::milliseconds wait_max) {
  PGcancel* const cancel = PQgetCancel(connection);
  if (cancel == nullptr) return;
  auto ask = std::make_shared<std::packaged_task<void()>>([cancel] {
    std::array<char, 256> text{};
    (void)PQcancel(cancel, text.data(), static_cast<int>(text.size()));
    PQfreeCancel(cancel);
  });
  const std::future<void> asked = ask->get_future();
  run_errand([ask] { (*ask)(); });
  (void)asked.wait_for(wait_max);
}

WalPosition position_of(const pg_result* result, int column) {
  const Result<WalPosition> position = parse_wal_position(PQgetvalue(result, 0, column));
  return position ? *position : WalPosition{};
}

}  // namespace

void Replication::Close::operator()(pg_conn* connection) const {
  // While the server waits for other transactions, it does not notice that we leave, and would keep
  // the slot until they end.
  if (PQstatus(connection) == CONNECTION_OK && PQtransactionStatus(connection) == PQTRANS_ACTIVE &&
      PQisBusy(connection) == 1)
    cancel_within(connection, kCancelWithin);
  PQfinish(connection);
}

Result<Replication> Replication::open(const std::string& conninfo) {
  Result<OwnedConnection> opened = connect_to(conninfo, "database");
  if (!opened) {
    if (opened.error().code != Errc::unavailable) return fail(opened.error());
    return fail(why_refused(conninfo, std::move(opened.error())));
  }
  Replication replication;
  replication.connection_.reset(opened->release());
  DOVETAIL_TRY(replication.set_up());
  return replication;
}

Status Replication::set_up() {
  // A pooler may have dropped the replication setting; then only SQL is understood.
  const Rows identity = ask(connection_.get(), "IDENTIFY_SYSTEM");
  if (sqlstate_of(identity) == "42601") return fail(Errc::rejected, std::string(kPoolerText));
  if (PQresultStatus(identity.get()) != PGRES_TUPLES_OK)
    return fail(server_error(connection_.get(), identity.get(), false, kRightsHint));
  std::string settings(kSettings);
  if (server_version() >= 140000) settings += kSettings14;
  const Rows set = ask(connection_.get(), settings);
  if (PQresultStatus(set.get()) != PGRES_COMMAND_OK)
    return fail(server_error(connection_.get(), set.get()));
  return {};
}

void Replication::close() { connection_.reset(); }
int Replication::server_version() const { return PQserverVersion(connection_.get()); }
std::int32_t Replication::backend_pid() const { return PQbackendPID(connection_.get()); }
int Replication::socket() const { return PQsocket(connection_.get()); }

bool Replication::is_server_stopping(const std::string& conninfo) const {
  // The settings may name several servers.
  const std::array<const char*, 7> keywords = {
      "dbname", "host", "hostaddr", "port", "target_session_attrs", "connect_timeout", nullptr};
  const std::array<const char*, 7> values = {conninfo.c_str(),
                                             PQhost(connection_.get()),
                                             PQhostaddr(connection_.get()),
                                             PQport(connection_.get()),
                                             "any",
                                             "2",
                                             nullptr};
  return PQpingParams(keywords.data(), values.data(), 1) == PQPING_REJECT;
}

Error Replication::lost(const char* what) {
  Error error{Errc::unavailable,
              what + one_line(PQerrorMessage(connection_.get())) + "; check that the server runs"};
  close();
  return error;
}

Status Replication::ask_for_slot(const std::string& name, bool temporary, bool failover) {
  const Result<std::string> quoted = quoted_name(name);
  if (!quoted) return fail(quoted.error());
  std::string command = "CREATE_REPLICATION_SLOT " + *quoted;
  command += temporary ? " TEMPORARY LOGICAL pgoutput" : " LOGICAL pgoutput";
  if (failover && !temporary && server_version() >= 170000) {
    command += " (SNAPSHOT 'export', FAILOVER 'true')";
  } else {
    command += server_version() >= 150000 ? " (SNAPSHOT 'export')" : " EXPORT_SNAPSHOT";
  }
  if (PQsendQuery(connection_.get(), command.c_str()) != 1 || PQflush(connection_.get()) < 0)
    return fail(lost("the replication connection is lost: "));
  return {};
}

Result<std::optional<CreatedSlot>> Replication::slot_made() {
  if (PQflush(connection_.get()) < 0 || PQconsumeInput(connection_.get()) == 0)
    return fail(lost("the replication connection is lost: "));
  if (PQisBusy(connection_.get()) == 1) return std::optional<CreatedSlot>();
  const auto end = std::chrono::steady_clock::now() + kAnswerWithin;
  const Rows made = next_result(connection_.get(), end);
  if (PQresultStatus(made.get()) != PGRES_TUPLES_OK || PQntuples(made.get()) != 1 ||
      PQnfields(made.get()) < 3) {
    Error error = server_error(connection_.get(), made.get(), false, kRightsHint);
    // All slots are in use, which does not pass by itself.
    if (sqlstate_of(made) == "53400") error.code = Errc::rejected;
    close();
    return fail(std::move(error));
  }
  CreatedSlot slot{position_of(made.get(), 1), PQgetvalue(made.get(), 0, 2)};
  while (next_result(connection_.get(), end).get() != nullptr) {
  }
  return std::optional<CreatedSlot>(std::move(slot));
}

Status Replication::start(const StreamRequest& request) {
  const Result<std::string> slot = quoted_name(request.slot);
  if (!slot) return fail(slot.error());
  const Result<std::string> publication = quoted_name(request.publication);
  if (!publication) return fail(publication.error());
  std::string command = "START_REPLICATION SLOT " + *slot + " LOGICAL " + to_string(request.from) +
                        " (proto_version '1', publication_names " + literal(*publication);
  if (server_version() >= 140000) {
    if (request.binary) command += ", binary 'true'";
    if (request.messages) command += ", messages 'true'";
  }
  const Rows started = ask(connection_.get(), command + ")");
  if (PQresultStatus(started.get()) == PGRES_COPY_BOTH) return {};
  Error error = server_error(connection_.get(), started.get(), false, kRightsHint);
  // Whatever is wrong with the slot, a new one can be made.
  const std::string sqlstate = sqlstate_of(started);
  if (sqlstate.starts_with("55") || sqlstate == "42704") error.code = Errc::unavailable;
  close();
  return fail(std::move(error));
}

Result<CopyBytes> Replication::receive() {
  for (int round = 0; round < 2; ++round) {
    char* bytes = nullptr;
    const int size = PQgetCopyData(connection_.get(), &bytes, 1);
    if (size > 0) {
      CopyBytes message;
      message.bytes.reset(bytes);
      message.size = static_cast<std::size_t>(size);
      return message;
    }
    if (size == -2) return fail(lost("the WAL stream is lost: "));
    if (size == -1) {
      const Rows end = next_result(connection_.get(),
                                   std::chrono::steady_clock::now() + std::chrono::seconds(1));
      Error error{Errc::unavailable,
                  "the server ended the WAL stream; check whether it is shutting down"};
      if (!sqlstate_of(end).empty() || PQstatus(connection_.get()) != CONNECTION_OK)
        error.text = "the WAL stream ended: " + server_error(connection_.get(), end.get()).text;
      close();
      return fail(std::move(error));
    }
    if (round == 0 && PQconsumeInput(connection_.get()) == 0)
      return fail(lost("the WAL stream is lost: "));
  }
  return CopyBytes{};
}

Status Replication::send_status(WalPosition written, WalPosition flushed, WallTime now,
                                bool wants_reply) {
  const std::string update = status_update(written, flushed, now, wants_reply);
  // 0: no room now. The next update includes this one.
  if (PQputCopyData(connection_.get(), update.data(), static_cast<int>(update.size())) < 0)
    return fail(lost("the WAL stream is lost: "));
  if (const Result<bool> sent = send_rest(); !sent) return fail(sent.error());
  return {};
}

Result<bool> Replication::send_rest() {
  const int left = PQflush(connection_.get());
  if (left < 0) return fail(lost("the WAL stream is lost: "));
  return left == 0;
}

}  // namespace dovetail::postgres
