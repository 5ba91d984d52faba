// A PostgreSQL connection, as the shared rules of src/sql use it.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "postgres/connection/connection.h"
#include "sql/session.h"

namespace dovetail::postgres {

// Uses a connection that the caller opens and owns. Sends statements unchanged. The database's
// clock is the server's.
class PostgresSession : public SqlSession {
 public:
  explicit PostgresSession(Connection& connection) : connection_(connection) {}

  Status connect() override;
  void close() override { connection_.close(); }
  using SqlSession::run;
  Result<SqlRows> run(std::string_view sql, const SqlParams& params) override;
  Result<std::vector<SqlRows>> run_each(std::string_view sql,
                                        std::span<const SqlParams> each) override;
  Status begin(std::string_view doing) override;
  Status commit(std::string_view doing) override;
  void rollback() override;
  bool in_transaction() const override;

 private:
  Connection& connection_;
};

// Opens a connection of its own. `limit` is for connecting, `statement_limit` for each statement.
class OwnSession final : public PostgresSession {
 public:
  explicit OwnSession(std::string conninfo, Duration limit = kConnectMax,
                      Duration statement_limit = std::chrono::seconds(30))
      : PostgresSession(own_),
        conninfo_(std::move(conninfo)),
        limit_(limit),
        statement_limit_(statement_limit) {}

  Status connect() override;

 private:
  std::string conninfo_;
  Duration limit_;
  Duration statement_limit_;
  Connection own_;
};

// The connection of a service, which owns its transactions. Waits without a limit, like libpq.
class ServiceConnection final : public SqlRunner {
 public:
  explicit ServiceConnection(pg_conn* connection) : connection_(connection) {}
  using SqlRunner::run;
  Result<SqlRows> run(std::string_view sql, const SqlParams& params) override;

 private:
  pg_conn* connection_;
};

}  // namespace dovetail::postgres
