// What every SqlSession must do. A database implements SessionsUnderTest and instantiates the
// suite.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "conformance/cases.h"
#include "kit/ids.h"
#include "sql/session.h"

namespace dovetail::conformance {

// One database, with the table
//   kept (number integer primary key, word text, raw bytes, id event id, at time, yes boolean)
// whose columns but the first may be null.
class SessionsUnderTest {
 public:
  virtual ~SessionsUnderTest() = default;
  // Its own connection. Not connected.
  virtual std::unique_ptr<SqlSession> make() = 0;
  // The current time of the database's clock, in its own SQL.
  virtual std::string now() const = 0;
};

struct SessionCase {
  std::string name;
  std::unique_ptr<SessionsUnderTest> (*make)();
};

class SessionSuite : public testing::TestWithParam<SessionCase> {
 protected:
  void SetUp() override {
    database_ = GetParam().make();
    session_ = connected();
  }
  std::unique_ptr<SqlSession> connected() {
    auto session = database_->make();
    const Status done = session->connect();
    EXPECT_TRUE(done) << done.error().text;
    return session;
  }
  SqlRows run(const std::string& sql, const SqlParams& params = {}) {
    const Result<SqlRows> rows = session_->run(sql, params);
    EXPECT_TRUE(rows) << sql << ": " << rows.error().text;
    return rows.value_or(SqlRows());
  }
  void keep(std::int64_t number) {
    run("INSERT INTO kept (number) VALUES ($1)", SqlParams().integer(number));
  }
  std::int64_t count() { return run("SELECT count(*) FROM kept").integer(0, 0); }

  std::unique_ptr<SessionsUnderTest> database_;
  std::unique_ptr<SqlSession> session_;
};

TEST_P(SessionSuite, WhatIsWrittenIsReadAsItWas) {
  const std::string word = "zwölf \"Worte\"";
  const std::string raw("\0\xff'raw", 6);
  const EventId id = numbered_id(77);
  const WallTime at{std::chrono::microseconds(1'700'000'000'123'456)};
  run("INSERT INTO kept (number, word, raw, id, at, yes) VALUES ($1, $2, $3, $4, $5, $6)",
      SqlParams().integer(-5).text(word).bytes(raw).id(id).time(at).boolean(true));
  const SqlRows rows = run("SELECT number, word, raw, id, at, yes FROM kept");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.integer(0, 0), -5);
  EXPECT_EQ(rows.bytes(0, 1), word);
  EXPECT_EQ(rows.bytes(0, 2), raw);
  EXPECT_EQ(rows.id(0, 3), id);
  EXPECT_EQ(rows.time(0, 4), at);
  EXPECT_TRUE(rows.boolean(0, 5));
}

TEST_P(SessionSuite, NothingIsNotTheSameAsEmpty) {
  run("INSERT INTO kept (number, word, raw, id) VALUES ($1, $2, $3, $4)",
      SqlParams().integer(1).text({}).bytes({}).null());
  const SqlRows rows = run("SELECT word, raw, id, at FROM kept");
  EXPECT_FALSE(rows.is_null(0, 0));
  EXPECT_EQ(rows.bytes(0, 0), "");
  EXPECT_FALSE(rows.is_null(0, 1));
  EXPECT_TRUE(rows.is_null(0, 2));
  EXPECT_TRUE(rows.is_null(0, 3));
}

TEST_P(SessionSuite, AParameterIsUsedWhereItsNumberStands) {
  const SqlRows rows = run("SELECT number FROM kept WHERE number = $2 OR number = $2 + $3",
                           SqlParams().integer(1).integer(2).integer(3));
  EXPECT_TRUE(rows.empty());
  for (const int number : {1, 2, 5}) keep(number);
  EXPECT_EQ(run("SELECT number FROM kept WHERE number = $2 + $1 OR number = $2 ORDER BY number",
                SqlParams().integer(3).integer(2))
                .size(),
            2U);
}

TEST_P(SessionSuite, ItSaysHowManyRowsAStatementChanged) {
  for (const int number : {1, 2, 3}) keep(number);
  EXPECT_EQ(run("UPDATE kept SET word = 'x' WHERE number > $1", SqlParams().integer(1)).affected(),
            2);
  EXPECT_EQ(run("UPDATE kept SET word = 'x' WHERE number > $1", SqlParams().integer(9)).affected(),
            0);
  EXPECT_EQ(run("DELETE FROM kept").affected(), 3);
}

TEST_P(SessionSuite, OneStatementForManyAnswersInTheirOrder) {
  auto transaction = SqlTransaction::begin(*session_, "testing");
  ASSERT_TRUE(transaction) << transaction.error().text;
  std::vector<SqlParams> each;
  for (int number = 0; number < 300; ++number) each.push_back(SqlParams().integer(number));
  const auto kept = session_->run_each("INSERT INTO kept (number) VALUES ($1)", each);
  ASSERT_TRUE(kept) << kept.error().text;
  ASSERT_EQ(kept->size(), each.size());
  EXPECT_EQ(kept->front().affected(), 1);
  const auto found = session_->run_each("SELECT number FROM kept WHERE number = $1 * 2", each);
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_EQ((*found)[7].integer(0, 0), 14);
  EXPECT_TRUE((*found)[150].empty());
  EXPECT_TRUE(session_->run_each("DELETE FROM kept WHERE number = $1", {})->empty());
  ASSERT_TRUE(transaction->commit());
  EXPECT_EQ(count(), 300);
}

TEST_P(SessionSuite, OfManyThatFailNothingIsKept) {
  {
    auto transaction = SqlTransaction::begin(*session_, "testing");
    ASSERT_TRUE(transaction) << transaction.error().text;
    const std::vector<SqlParams> each = {SqlParams().integer(1), SqlParams().integer(2),
                                         SqlParams().integer(1), SqlParams().integer(3)};
    const auto kept = session_->run_each("INSERT INTO kept (number) VALUES ($1)", each);
    ASSERT_FALSE(kept);
    EXPECT_EQ(kept.error().code, Errc::rejected) << kept.error().text;
  }
  EXPECT_FALSE(session_->in_transaction());
  EXPECT_EQ(count(), 0) << "and the connection is of use";
}

TEST_P(SessionSuite, ATransactionIsSeenByOthersWhenItIsCommitted) {
  const auto other = connected();
  const auto seen = [&] { return other->run("SELECT count(*) FROM kept").value().integer(0, 0); };
  {
    auto transaction = SqlTransaction::begin(*session_, "testing");
    keep(1);
    EXPECT_TRUE(session_->in_transaction());
    EXPECT_EQ(seen(), 0);
  }
  EXPECT_FALSE(session_->in_transaction());
  EXPECT_EQ(count(), 0) << "rolled back at the end of its scope";
  auto transaction = SqlTransaction::begin(*session_, "testing");
  keep(2);
  ASSERT_TRUE(transaction->commit());
  EXPECT_FALSE(session_->in_transaction());
  EXPECT_EQ(seen(), 1);
}

TEST_P(SessionSuite, AWrongStatementIsToldAndHarmsNothing) {
  const auto wrong = session_->run("SELECT word FROM nowhere");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Errc::rejected);
  EXPECT_NE(wrong.error().text.find("nowhere"), std::string::npos) << wrong.error().text;
  keep(1);
  EXPECT_EQ(count(), 1);
}

TEST_P(SessionSuite, AClosedOneIsOfUseOnceItIsConnectedAgain) {
  session_->close();
  const auto refused = session_->run("SELECT count(*) FROM kept");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_FALSE(session_->begin("testing"));
  EXPECT_FALSE(session_->in_transaction());
  ASSERT_TRUE(session_->connect());
  ASSERT_TRUE(session_->connect()) << "one that is connected stays so";
  EXPECT_EQ(count(), 0);
}

TEST_P(SessionSuite, TheDatabaseHasAClock) {
  const WallTime first = run("SELECT " + database_->now()).time(0, 0);
  const WallTime second = run("SELECT " + database_->now()).time(0, 0);
  EXPECT_GT(first, WallTime{std::chrono::hours(24 * 365 * 50)});
  EXPECT_LE(first, second);
}

}  // namespace dovetail::conformance
