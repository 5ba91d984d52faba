// Connections to PostgreSQL pass the session suite, directly and through a pooler in transaction
// mode.
#include "conformance/session_suite.h"
#include "postgres/connection/session.h"
#include "postgres/testing/test_database.h"

namespace dovetail::conformance {
namespace {

using postgres::Connection;

class OwningSession final : public SqlSession {
 public:
  explicit OwningSession(std::string conninfo) : conninfo_(std::move(conninfo)) {}
  Status connect() override {
    if (connection_) return {};
    Result<Connection> opened = Connection::open(conninfo_);
    if (!opened) return fail(opened.error());
    connection_ = std::move(*opened);
    return {};
  }
  void close() override { session_.close(); }
  Result<SqlRows> run(std::string_view sql, const SqlParams& params) override {
    return session_.run(sql, params);
  }
  Result<std::vector<SqlRows>> run_each(std::string_view sql,
                                        std::span<const SqlParams> each) override {
    return session_.run_each(sql, each);
  }
  Status begin(std::string_view doing) override { return session_.begin(doing); }
  Status commit(std::string_view doing) override { return session_.commit(doing); }
  void rollback() override { session_.rollback(); }
  bool in_transaction() const override { return session_.in_transaction(); }

 private:
  std::string conninfo_;
  Connection connection_;
  postgres::PostgresSession session_{connection_};
};

class PostgresSessions final : public SessionsUnderTest {
 public:
  explicit PostgresSessions(bool pooled) {
    Connection owner = database_.connect();
    postgres::must(owner,
                   "CREATE TABLE kept (number bigint PRIMARY KEY, word text, raw bytea, id uuid, "
                   "at timestamptz, yes boolean)");
    conninfo_ = pooled ? servers::with_database(servers::find("pgbouncer").conninfo, database_.name)
                       : database_.conninfo;
  }
  std::unique_ptr<SqlSession> make() override { return std::make_unique<OwningSession>(conninfo_); }
  std::string now() const override { return "clock_timestamp()"; }

 private:
  postgres::TestDatabase database_;
  std::string conninfo_;
};

template <bool kPooled>
std::unique_ptr<SessionsUnderTest> make() {
  return std::make_unique<PostgresSessions>(kPooled);
}

INSTANTIATE_TEST_SUITE_P(Postgres, SessionSuite,
                         testing::Values(SessionCase{"direct", make<false>},
                                         SessionCase{"pooled", make<true>}),
                         case_name<SessionCase>);

}  // namespace
}  // namespace dovetail::conformance
