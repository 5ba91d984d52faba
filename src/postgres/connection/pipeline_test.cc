#include "postgres/connection/pipeline.h"

#include <array>

#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using Answer = Pipeline::Answer;

TEST(PostgresPipeline, AnswersComeInTheOrderOfTheStatements) {
  TestDatabase database;
  Pipeline pipeline(database.connect());
  for (const int value : {3, 1, 2})
    ASSERT_TRUE(pipeline.send("SELECT $1::int", Params().int4(value), Answer::kept));
  ASSERT_TRUE(pipeline.send("SELECT 17"));
  ASSERT_TRUE(pipeline.send("SELECT $1::int", Params().int4(4), Answer::kept));
  const Status done = pipeline.finish();
  ASSERT_TRUE(done) << text_of(done);
  const std::vector<Rows> rows = pipeline.take_rows();
  ASSERT_EQ(rows.size(), 4U);
  for (const std::size_t i : {0U, 1U, 2U, 3U})
    EXPECT_EQ(rows[i].int4(0, 0), (std::array{3, 1, 2, 4}[i]));
}

TEST(PostgresPipeline, TheFirstErrorIsToldAndNothingBehindItIsDone) {
  TestDatabase database;
  Connection other = database.connect();
  must(other, "CREATE TABLE t (n int)");
  Pipeline pipeline(database.connect());
  ASSERT_TRUE(pipeline.send("INSERT INTO t VALUES (1)"));
  ASSERT_TRUE(pipeline.send("SELECT 1 / 0"));
  ASSERT_TRUE(pipeline.send("SELECT nonsense"));
  ASSERT_TRUE(pipeline.send("INSERT INTO t VALUES (2)"));
  const Status done = pipeline.finish();
  EXPECT_TRUE(contains(text_of(done), "division by zero")) << text_of(done);
  EXPECT_EQ(pipeline.sqlstate(), "22012");
  EXPECT_EQ(number(other, "SELECT count(*) FROM t"), 0);
  ASSERT_TRUE(pipeline.send("INSERT INTO t VALUES (3)"));
  EXPECT_TRUE(pipeline.finish()) << "it is of use again";
  EXPECT_EQ(number(other, "SELECT sum(n) FROM t"), 3);
}

// A pooler may give the next transaction another session, or use this one for another client in
// between.
TEST(PostgresPipeline, NoStatementIsTakenForParsedInTheNextTransaction) {
  TestDatabase database;
  const std::string pooled =
      servers::with_database(servers::find("pgbouncer").conninfo, database.name);
  std::vector<Pipeline> clients;
  for (int i = 0; i < 2; ++i) {
    Result<Connection> connection = Connection::open(pooled);
    ASSERT_TRUE(connection) << text_of(connection);
    clients.emplace_back(std::move(*connection));
  }
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 2; ++i) {
      const std::string sql = "SELECT " + std::to_string(i);
      ASSERT_TRUE(clients[static_cast<std::size_t>(i)].send(sql, {}, Answer::kept));
      const Status done = clients[static_cast<std::size_t>(i)].finish();
      ASSERT_TRUE(done) << text_of(done);
      ASSERT_EQ(clients[static_cast<std::size_t>(i)].take_rows().at(0).int4(0, 0), i)
          << "the other's statement";
    }
  }
}

TEST(PostgresPipeline, AStatementWithoutAnswerInTimeCostsTheConnection) {
  TestDatabase database;
  Pipeline pipeline(database.connect());
  pipeline.set_timeout(50ms);
  ASSERT_TRUE(pipeline.send("SELECT pg_sleep(60)"));
  const Status done = pipeline.finish();
  EXPECT_TRUE(failed_with(done, Errc::unavailable)) << text_of(done);
  EXPECT_FALSE(pipeline);
  EXPECT_TRUE(failed_with(pipeline.send("SELECT 1"), Errc::unavailable));
  EXPECT_TRUE(failed_with(pipeline.finish(true), Errc::in_doubt));
}

TEST(PostgresPipeline, CopyIsRefused) {
  TestDatabase database;
  Connection other = database.connect();
  must(other, "CREATE TABLE t (n int)");
  Pipeline pipeline(database.connect());
  ASSERT_TRUE(pipeline.send("COPY t FROM STDIN"));
  const Status done = pipeline.finish();
  EXPECT_TRUE(contains(text_of(done), "COPY cannot be queued")) << text_of(done);
}

TEST(PostgresPipeline, NoNameIsLeftBehindInTheSession) {
  TestDatabase database;
  Pipeline pipeline(database.connect());
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(pipeline.send("SELECT count(*) FROM pg_prepared_statements", {}, Answer::kept));
  ASSERT_TRUE(pipeline.finish());
  EXPECT_EQ(pipeline.take_rows().at(2).int8(0, 0), 0);
}

// The server chooses parameter types when it parses, which does not happen again here.
TEST(PostgresPipeline, WhatIsTheSameAsBeforeIsParsedOnce) {
  TestDatabase database;
  Pipeline pipeline(database.connect());
  constexpr std::string_view kType = "SELECT pg_typeof($1)::text";
  ASSERT_TRUE(pipeline.send(kType, Params().int4(1), Answer::kept));
  ASSERT_TRUE(pipeline.send(kType, Params().text("four"), Answer::kept));
  ASSERT_TRUE(pipeline.send("SELECT 1"));
  ASSERT_TRUE(pipeline.send(kType, Params().text("four"), Answer::kept));
  const Status done = pipeline.finish();
  ASSERT_TRUE(done) << text_of(done);
  const std::vector<Rows> rows = pipeline.take_rows();
  EXPECT_EQ(rows.at(0).text(0, 0), "integer");
  EXPECT_EQ(rows.at(1).text(0, 0), "integer");
  EXPECT_EQ(rows.at(2).text(0, 0), "text");
}

}  // namespace
}  // namespace dovetail::postgres
