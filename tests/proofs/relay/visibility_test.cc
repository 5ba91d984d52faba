// The orders of transactions that break other ways of reading an outbox, on a real server: a cursor
// by number loses late commits; a gate at the oldest running transaction inverts a key's order and
// stalls behind any long writer.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dovetail/postgres.h"
#include "host/host.h"
#include "postgres/outbox/source.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using Payloads = std::vector<std::string>;

// One session of the application, with at most one transaction open.
class Session {
 public:
  explicit Session(const TestDatabase& database) : connection_(database.connect()) {}

  Session& begin(const std::string& how = "BEGIN") {
    must(connection_, how);
    return *this;
  }
  // Gets its transaction number now, long before it writes.
  Session& take_xid() {
    xid_ = text(connection_, "SELECT pg_current_xact_id()::text");
    return *this;
  }
  Session& change(const std::string& key) {
    must(connection_, "UPDATE account SET version = version + 1 WHERE key = '" + key + "'");
    return *this;
  }
  Session& publish(std::string_view key, std::string_view payload) {
    NewEvent event;
    event.aggregate_type = "account";
    event.aggregate_id = key;
    event.type = "changed";
    event.payload = payload;
    const Result<EventId> id = dovetail::postgres::publish(connection_.get(), event);
    EXPECT_TRUE(id) << text_of(id);
    return *this;
  }
  void commit() { must(connection_, "COMMIT"); }
  void rollback() { must(connection_, "ROLLBACK"); }
  Connection& connection() { return connection_; }
  std::int64_t xid() const { return std::stoll(xid_); }

 private:
  Connection connection_;
  std::string xid_;
};

class PostgresVisibility : public testing::Test {
 protected:
  PostgresVisibility() {
    Connection owner = database_.connect();
    EXPECT_TRUE(create_schema(owner));
    must(owner,
         "CREATE TABLE account (key text PRIMARY KEY, version bigint NOT NULL);"
         "INSERT INTO account VALUES ('k', 0), ('other', 0)");
    open();
  }

  void open(const std::string& relay = "test") {
    source_.reset();
    reader_ = Reader{};
    reader_.conninfo = database_.conninfo;
    reader_.relay = relay;
    source_ = std::make_unique<PostgresSource>(reader_, system_clock());
    const Status opened = source_->open();
    ASSERT_TRUE(opened) << opened.error().text;
  }

  // What a poll returns now. The wait covers the pause between two looks.
  Payloads poll(std::size_t events_max = 1000) {
    Batch batch;
    const Limits limits{events_max, 1 << 20, std::chrono::milliseconds(50)};
    const Status read = source_->read(batch, limits, std::stop_token{});
    EXPECT_TRUE(read) << text_of(read);
    Payloads payloads;
    for (const Event& event : batch.events()) payloads.emplace_back(event.payload);
    EXPECT_TRUE(source_->settle(batch, std::vector<Settled>(batch.size(), Settled::delivered)));
    EXPECT_TRUE(source_->flush());
    return payloads;
  }
  Payloads poll_all(std::size_t events_max = 1000) {
    Payloads all;
    for (Payloads some = poll(events_max); !some.empty(); some = poll(events_max))
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }

  TestDatabase database_;
  Reader reader_;
  std::unique_ptr<PostgresSource> source_;
};

// E1
TEST_F(PostgresVisibility, AnEarlyTransactionThatCommitsLateDoesNotOvertakeOnItsKey) {
  Session a(database_), b(database_), d(database_);
  a.begin().take_xid();
  d.begin().take_xid();
  b.begin().change("k").publish("k", "from b").commit();
  a.change("k").publish("k", "from a").commit();
  EXPECT_EQ(poll_all(), (Payloads{"from b", "from a"}))
      << "d is open with a later number, and holds nothing up";
  d.rollback();
  EXPECT_TRUE(poll_all().empty());
}

TEST_F(PostgresVisibility, TheSameHoldsWhenEveryStepIsPolled) {
  Session a(database_), b(database_), d(database_);
  a.begin().take_xid();
  d.begin().take_xid();
  EXPECT_TRUE(poll().empty());
  b.begin().change("k").publish("k", "from b").commit();
  EXPECT_EQ(poll(), (Payloads{"from b"}));
  a.change("k").publish("k", "from a");
  EXPECT_TRUE(poll().empty());
  a.commit();
  EXPECT_EQ(poll(), (Payloads{"from a"}));
  d.publish("k", "from d").commit();
  EXPECT_EQ(poll(), (Payloads{"from d"}));
}

// E2
TEST_F(PostgresVisibility, OrderFollowsTheLocksNotTheNumbersOfTransactions) {
  Session a(database_), b(database_);
  a.begin().take_xid();
  b.begin().take_xid();
  ASSERT_LT(a.xid(), b.xid());
  b.change("k").publish("k", "from b").commit();
  a.change("k").publish("k", "from a").commit();
  EXPECT_EQ(poll_all(), (Payloads{"from b", "from a"}));
  open("from the start");
  EXPECT_EQ(poll_all(1), (Payloads{"from b", "from a"})) << "page by page as well";
}

// E3
TEST_F(PostgresVisibility, LateCommitIsNeverSkipped) {
  Session b(database_), c(database_);
  b.begin().take_xid();
  c.begin().publish("other", "from c");
  b.publish("k", "from b").commit();
  EXPECT_EQ(poll_all(), (Payloads{"from b"})) << "its number is higher than that of c's event";
  open();
  EXPECT_TRUE(poll_all().empty());
  c.commit();
  EXPECT_EQ(poll_all(), (Payloads{"from c"}));
}

TEST_F(PostgresVisibility, LateCommitIsNeverSkippedWhileALargeWindowIsPaged) {
  Session late(database_), early(database_);
  late.begin().publish("other", "late");
  for (int i = 0; i < 20; ++i) early.begin().publish("k", std::to_string(i)).commit();
  Payloads all = poll(7);
  late.commit();
  open();  // a restart in the middle of the window
  early.begin().publish("k", "20").commit();
  for (Payloads some = poll(7); !some.empty(); some = poll(7))
    all.insert(all.end(), some.begin(), some.end());
  ASSERT_EQ(all.size(), 22U);
  EXPECT_EQ(std::count(all.begin(), all.end(), "late"), 1);
  std::erase(all, "late");
  for (int i = 0; i <= 20; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST_F(PostgresVisibility, WhatWasReadBeforeIsNotReadAgainWhenALateWindowReachesBackOverIt) {
  Session late(database_), app(database_);
  late.begin().publish("other", "late");
  for (int i = 0; i < 20; ++i) app.begin().publish("k", std::to_string(i)).commit();
  ASSERT_EQ(poll_all().size(), 20U);
  late.commit();
  for (int i = 20; i < 30; ++i) app.begin().publish("k", std::to_string(i)).commit();
  const Payloads rest = poll_all(3);
  ASSERT_EQ(rest.size(), 11U);
  EXPECT_EQ(rest.front(), "late");
  EXPECT_EQ(rest.back(), "29");
}

TEST_F(PostgresVisibility, WhatCommitsWhileAWindowIsPagedBelongsToTheNext) {
  Session late(database_), app(database_);
  for (int i = 0; i < 10; ++i) app.begin().publish("k", std::to_string(i)).commit();
  late.begin().publish("other", "late");
  for (int i = 10; i < 20; ++i) app.begin().publish("k", std::to_string(i)).commit();
  Payloads all = poll(3);
  late.commit();
  const Payloads rest = poll_all(3);
  all.insert(all.end(), rest.begin(), rest.end());
  ASSERT_EQ(all.size(), 21U) << "each once";
  EXPECT_EQ(all.back(), "late");
}

// E4
TEST_F(PostgresVisibility, NobodysOpenTransactionDelaysTheOthers) {
  TestDatabase elsewhere;
  Session reading(database_), writing(database_), foreign(elsewhere), app(database_);
  reading.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  EXPECT_EQ(number(reading.connection(), "SELECT count(*) FROM account"), 2);
  must(foreign.connection(), "CREATE TABLE t (x int)");
  foreign.begin().take_xid();
  must(foreign.connection(), "INSERT INTO t VALUES (1)");
  writing.begin().change("other").publish("other", "held back");
  for (int i = 0; i < 5; ++i) {
    app.begin().change("k").publish("k", std::to_string(i)).commit();
    EXPECT_EQ(poll(), (Payloads{std::to_string(i)}));
  }
  writing.commit();
  EXPECT_EQ(poll(), (Payloads{"held back"}));
}

TEST_F(PostgresVisibility, APreparedTransactionDelaysNobodyAndIsReadWhenItCommits) {
  Session prepared(database_), app(database_);
  prepared.begin().publish("other", "prepared");
  must(prepared.connection(), "PREPARE TRANSACTION '" + database_.name + "'");
  app.begin().publish("k", "1").commit();
  EXPECT_EQ(poll_all(), (Payloads{"1"}));
  must(prepared.connection(), "COMMIT PREPARED '" + database_.name + "'");
  EXPECT_EQ(poll_all(), (Payloads{"prepared"}));
}

// E5
TEST_F(PostgresVisibility, TakingANumberTakesNoTransactionNumber) {
  Session session(database_);
  // The first call writes a WAL record for the next 32 numbers, or until a checkpoint, which other
  // tests may cause at any time.
  std::string assigned;
  for (int tries = 0; tries < 20 && assigned != "null"; ++tries) {
    number(session.connection(), "SELECT nextval('dovetail.outbox_seq')");
    session.begin();
    for (int i = 0; i < 3; ++i)
      number(session.connection(), "SELECT nextval('dovetail.outbox_seq')");
    assigned = text(session.connection(), "SELECT pg_current_xact_id_if_assigned()::text");
    session.rollback();
  }
  EXPECT_EQ(assigned, "null")
      << "so the order of numbers says nothing about the order of transactions";
}

TEST_F(PostgresVisibility, WhatIsRolledBackIsNeverRead) {
  Session app(database_);
  app.begin().publish("k", "kept");
  must(app.connection(), "SAVEPOINT s");
  app.publish("k", "undone");
  must(app.connection(), "ROLLBACK TO s");
  must(app.connection(), "SAVEPOINT t");
  app.publish("k", "kept too");
  must(app.connection(), "RELEASE t");
  app.commit();
  app.begin().publish("k", "rolled back").rollback();
  EXPECT_EQ(poll_all(), (Payloads{"kept", "kept too"}));
}

TEST_F(PostgresVisibility, ATransactionOfManyEventsComesWholeAndInOrder) {
  Session app(database_);
  app.begin();
  for (int i = 0; i < 50; ++i) app.publish("k", std::to_string(i));
  app.commit();
  const Payloads all = poll_all(8);
  ASSERT_EQ(all.size(), 50U);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST_F(PostgresVisibility, TwoRelaysReadTheSameOutboxEachWithItsOwnProgress) {
  Session app(database_);
  app.begin().publish("k", "1").commit();
  EXPECT_EQ(poll_all(), (Payloads{"1"}));
  open("second");
  EXPECT_EQ(poll_all(), (Payloads{"1"}));
  app.begin().publish("k", "2").commit();
  EXPECT_EQ(poll_all(), (Payloads{"2"}));
  open();
  EXPECT_EQ(poll_all(), (Payloads{"2"}));
}

}  // namespace
}  // namespace dovetail::postgres
