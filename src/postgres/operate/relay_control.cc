#include "postgres/operate/relay_control.h"

#include "postgres/connection/connection.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

Result<Connection> open_store(const std::string& url) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  return connection;
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

}  // namespace dovetail::postgres
