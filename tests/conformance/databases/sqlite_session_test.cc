// A connection to a SQLite file passes the session suite.
#include "conformance/session_suite.h"
#include "host/host.h"
#include "sqlite/connection/session.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::conformance {
namespace {

class SqliteSessions final : public SessionsUnderTest {
 public:
  SqliteSessions() {
    EXPECT_EQ(sqlite::Application(file_.path)
                  .run("CREATE TABLE kept (number INTEGER PRIMARY KEY, word TEXT, raw BLOB, id "
                       "BLOB, at INTEGER, yes INTEGER)"),
              SQLITE_OK);
  }
  std::unique_ptr<SqlSession> make() override {
    return std::make_unique<sqlite::SqliteSession>(file_.path, sqlite::Durability::full,
                                                   system_clock(), boot_id());
  }
  std::string now() const override { return ":now"; }

 private:
  sqlite::TestFile file_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, SessionSuite,
                         testing::Values(SessionCase{"file",
                                                     []() -> std::unique_ptr<SessionsUnderTest> {
                                                       return std::make_unique<SqliteSessions>();
                                                     }}),
                         case_name<SessionCase>);

TEST(SqliteSession, OnAConnectionOfTheApplicationItWorksInItsTransaction) {
  sqlite::TestFile file;
  sqlite::Application application(file.path);
  ASSERT_EQ(application.run("CREATE TABLE kept (number INTEGER PRIMARY KEY)"), SQLITE_OK);
  sqlite::SqliteSession session(application.connection, system_clock(), "boot");
  ASSERT_EQ(application.run("BEGIN"), SQLITE_OK);
  EXPECT_TRUE(session.in_transaction());
  ASSERT_TRUE(session.run("INSERT INTO kept (number) VALUES (1)"));
  ASSERT_EQ(application.run("ROLLBACK"), SQLITE_OK);
  EXPECT_EQ(session.run("SELECT count(*) FROM kept")->integer(0, 0), 0);
}

TEST(SqliteSession, StatementsNameTheClocksOfTheMachine) {
  sqlite::TestFile file;
  sqlite::Application application(file.path);
  sqlite::SqliteSession session(application.connection, system_clock(), "this boot");
  const TimePoint before = system_clock().now();
  const auto rows = session.run("SELECT :boot_time + $1, :boot, :now", SqlParams().integer(10));
  ASSERT_TRUE(rows) << rows.error().text;
  EXPECT_GE(rows->integer(0, 0), before.time_since_epoch().count() + 10);
  EXPECT_EQ(rows->bytes(0, 1), "this boot");
  EXPECT_LE(rows->time(0, 2), system_clock().wall());
}

}  // namespace
}  // namespace dovetail::conformance
