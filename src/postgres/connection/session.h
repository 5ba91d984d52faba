// A connection to PostgreSQL, as the rules that every database shares use it.
#pragma once

#include "postgres/connection/connection.h"
#include "sql/session.h"

namespace dovetail::postgres {

// Over a connection that somebody else opens and owns. Statements are sent as they are; the
// server's clock is the database's.
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
