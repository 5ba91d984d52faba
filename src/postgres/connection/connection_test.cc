#include "postgres/connection/connection.h"

#include <array>

#include "host/host.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

TEST(PostgresConnection, ValuesComeBackAsTheyWereSent) {
  TestDatabase database;
  Connection connection = database.connect();
  const EventId id = new_event_id();
  const WallTime time{1'700'000'000'123'456us};
  const std::string bytes("a\0b\xff", 4);
  const Result<Rows> rows = connection.query(
      "SELECT $1::bigint, $2::uuid, $3::bytea, $4::text, $5::timestamptz, $6::int, $7::bool, "
      "$8::text, $9::text, '-infinity'::timestamptz, 7::smallint",
      Params()
          .int8(-5)
          .uuid(id)
          .bytea(bytes)
          .text("äöü")
          .timestamptz(time)
          .int4(-7)
          .boolean(true)
          .text({})
          .null());
  ASSERT_TRUE(rows) << text_of(rows);
  EXPECT_EQ(rows->int8(0, 0), -5);
  EXPECT_EQ(rows->uuid(0, 1), id);
  EXPECT_EQ(rows->bytea(0, 2), bytes);
  EXPECT_EQ(rows->text(0, 3), "äöü");
  EXPECT_EQ(rows->timestamptz(0, 4), time);
  EXPECT_EQ(rows->int4(0, 5), -7);
  EXPECT_TRUE(rows->boolean(0, 6));
  EXPECT_FALSE(rows->is_null(0, 7));
  EXPECT_EQ(rows->text(0, 7), "");
  EXPECT_TRUE(rows->is_null(0, 8));
  EXPECT_EQ(rows->timestamptz(0, 9), WallTime::min());
  EXPECT_EQ(rows->int2(0, 10), 7);
}

TEST(PostgresConnection, ArraysKeepTheirOrderAndBytes) {
  TestDatabase database;
  Connection connection = database.connect();
  const std::array<std::string_view, 3> texts = {"", "b'\"{}", "c"};
  const std::array<std::int64_t, 3> numbers = {3, 2, 1};
  const std::array<EventId, 3> ids = {new_event_id(), new_event_id(), new_event_id()};
  const Result<Rows> rows = connection.query(
      "SELECT t, n, i, b FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::bytea[]) "
      "WITH ORDINALITY AS u(t, n, i, b, o) ORDER BY o",
      Params().text_array(texts).int8_array(numbers).uuid_array(ids).bytea_array(texts));
  ASSERT_TRUE(rows) << text_of(rows);
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ(rows->text(1, 0), texts[1]);
  EXPECT_EQ(rows->int8(0, 1), 3);
  EXPECT_EQ(rows->uuid(2, 2), ids[2]);
  EXPECT_EQ(rows->bytea(0, 3), "");
  const Result<Rows> none =
      connection.query("SELECT count(*) FROM unnest($1::text[])", Params().text_array({}));
  ASSERT_TRUE(none) << text_of(none);
  EXPECT_EQ(none->int8(0, 0), 0);
}

TEST(PostgresConnection, ErrorsSayWhatTheRelayDoesAboutThem) {
  TestDatabase database;
  Connection connection = database.connect();
  EXPECT_TRUE(failed_with(connection.query("SELECT 1/0"), Errc::rejected));
  EXPECT_TRUE(failed_with(connection.query("SELECT * FROM nowhere.nothing"), Errc::rejected));
  EXPECT_TRUE(
      contains(text_of(connection.query("SELECT * FROM nowhere.nothing")), "dovetail init"));
  EXPECT_TRUE(connection.query("SELECT 1")) << "a refused statement does not cost the connection";
  EXPECT_EQ(errc_of("40001"), Errc::unavailable);
  EXPECT_EQ(errc_of("57P01"), Errc::unavailable);
  EXPECT_EQ(errc_of("57P01", true), Errc::in_doubt);
  EXPECT_EQ(errc_of("XX001"), Errc::corrupt);
  EXPECT_TRUE(failed_with(Connection::open("host=127.0.0.1 port=1 user=x password=secret"),
                          Errc::unavailable));
  EXPECT_FALSE(
      contains(text_of(Connection::open("host=127.0.0.1 port=1 password=secret")), "secret"));
  EXPECT_FALSE(
      contains(text_of(Connection::open("postgresql://u:secret@127.0.0.1:1/x")), "secret"));
}

TEST(PostgresConnection, ALostSessionIsUnavailableAndClosesTheConnection) {
  TestDatabase database;
  Connection connection = database.connect();
  Connection other = database.connect();
  const std::int64_t pid = number(connection, "SELECT pg_backend_pid()");
  must(other, "SELECT pg_terminate_backend(" + std::to_string(pid) + ")");
  ASSERT_TRUE(eventually([&] {
    return number(other,
                  "SELECT count(*) FROM pg_stat_activity WHERE pid = " + std::to_string(pid)) == 0;
  }));
  EXPECT_TRUE(failed_with(connection.query("SELECT 1"), Errc::unavailable));
  EXPECT_FALSE(connection);
  EXPECT_TRUE(failed_with(connection.query("SELECT 1"), Errc::unavailable));
}

TEST(PostgresConnection, NoAnswerInTimeCostsTheConnection) {
  TestDatabase database;
  Connection connection = database.connect();
  connection.set_timeout(50ms);
  EXPECT_TRUE(failed_with(connection.query("SELECT pg_sleep(10)"), Errc::unavailable));
  EXPECT_FALSE(connection);
}

TEST(PostgresConnection, AnAnswerAskedForAheadWaitsBehindOtherStatements) {
  TestDatabase database;
  Connection connection = database.connect();
  ASSERT_TRUE(connection.ask_ahead("SELECT $1::bigint", Params().int8(1)));
  EXPECT_EQ(connection.query("SELECT 2::bigint")->int8(0, 0), 2);
  EXPECT_EQ(connection.take_ahead()->int8(0, 0), 1);
  ASSERT_TRUE(connection.ask_ahead("SELECT 3::bigint", {}));
  ASSERT_TRUE(connection.ask_ahead("SELECT 4::bigint", {}));
  EXPECT_EQ(connection.take_ahead()->int8(0, 0), 4) << "the later question counts";
  ASSERT_TRUE(connection.ask_ahead("SELECT 1/0", {}));
  EXPECT_TRUE(failed_with(connection.take_ahead(), Errc::rejected));
  EXPECT_EQ(connection.query("SELECT 5::bigint")->int8(0, 0), 5);
}

TEST(PostgresConnection, ATransactionIsUndoneUnlessCommitted) {
  TestDatabase database;
  Connection connection = database.connect();
  must(connection, "CREATE TABLE t (x int)");
  {
    Result<Transaction> transaction = Transaction::begin(connection);
    ASSERT_TRUE(transaction);
    must(connection, "INSERT INTO t VALUES (1)");
  }
  EXPECT_EQ(number(connection, "SELECT count(*) FROM t"), 0);
  {
    Result<Transaction> transaction = Transaction::begin(connection);
    ASSERT_TRUE(transaction);
    must(connection, "INSERT INTO t VALUES (1)");
    EXPECT_TRUE(transaction->commit());
  }
  EXPECT_EQ(number(connection, "SELECT count(*) FROM t"), 1);
}

TEST(PostgresConnection, ACommitAfterAFailedStatementIsNotTakenForOne) {
  TestDatabase database;
  Connection connection = database.connect();
  Result<Transaction> transaction = Transaction::begin(connection);
  ASSERT_TRUE(transaction);
  EXPECT_FALSE(connection.query("SELECT 1/0"));
  EXPECT_TRUE(failed_with(transaction->commit(), Errc::rejected));
}

TEST(PostgresConnection, AConnectionLostDuringCommitIsInDoubt) {
  TestDatabase database;
  Connection connection = database.connect();
  // A deferred check that does not end keeps COMMIT busy beyond the time limit.
  must(connection,
       "CREATE TABLE t (x int);"
       "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
       "'BEGIN PERFORM pg_sleep(10); RETURN NULL; END';"
       "CREATE CONSTRAINT TRIGGER w AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
       "EXECUTE FUNCTION wait()");
  Result<Transaction> transaction = Transaction::begin(connection);
  ASSERT_TRUE(transaction);
  must(connection, "INSERT INTO t VALUES (1)");
  connection.set_timeout(100ms);
  EXPECT_TRUE(failed_with(transaction->commit(), Errc::in_doubt));
}

TEST(PostgresConnection, NamesAndTextsCannotBreakOutOfTheirQuotes) {
  TestDatabase database;
  Connection connection = database.connect();
  const std::string nasty = R"(a"b'c\; DROP TABLE x --)";
  const Result<std::string> name = quoted_name(nasty);
  ASSERT_TRUE(name);
  must(connection, "CREATE TABLE " + *name + " (x int)");
  EXPECT_EQ(
      text(connection, "SELECT relname::text FROM pg_class WHERE relname = " + quoted_text(nasty)),
      nasty);
  EXPECT_TRUE(failed_with(quoted_name(""), Errc::rejected));
  EXPECT_TRUE(failed_with(quoted_name(std::string(64, 'x')), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::postgres
