// A PostgreSQL connection, as the shared rules of src/sql use it.
#pragma once

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

}  // namespace dovetail::postgres
