#include "sqlite/inbox/inbox_store.h"

#include <stdexcept>

#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

Status run_sql(sqlite3* transaction, const std::string& sql) {
  const int code = sqlite3_exec(transaction, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status{} : fail(error_of(transaction, code, "handling"));
}

class InboxRows : public ::testing::Test {
 protected:
  InboxRows() { application.run("CREATE TABLE effect (n INTEGER)"); }
  Handler handler = [](sqlite3* transaction, const Event&) {
    return run_sql(transaction, "INSERT INTO effect VALUES (1)");
  };
  std::unique_ptr<SqliteInboxStore> open_store_of(const std::string& consumer, bool clean = true) {
    auto store = std::make_unique<SqliteInboxStore>(file.path, consumer, handler, system_clock());
    const Result<bool> opened = store->open();
    EXPECT_TRUE(opened) << text_of(opened);
    EXPECT_EQ(opened.value_or(!clean), clean);
    return store;
  }
  bool insert_one(SqliteInboxStore& store, const Event& one_event) {
    Arrival arrival = Arrival::duplicate;
    const Event* const one[] = {&one_event};
    const Status inserted = store.insert(one, {&arrival, 1});
    EXPECT_TRUE(inserted) << text_of(inserted);
    return arrival == Arrival::first;
  }
  static Status apply_one(SqliteInboxStore& store, const Event& one_event) {
    const Event* const one[] = {&one_event};
    return store.apply(one);
  }
  std::int64_t effects() { return application.number("SELECT count(*) FROM effect"); }
  std::int64_t inbox() { return application.number("SELECT count(*) FROM dovetail_inbox"); }

  TestFile file;
  Application application{file.path};
  Event event = make_event("a", 1);
};

TEST_F(InboxRows, RowAndEffectCommitTogetherOrNotAtAll) {
  auto store = open_store_of("billing");
  ASSERT_TRUE(store->begin());
  EXPECT_TRUE(insert_one(*store, event));
  ASSERT_TRUE(apply_one(*store, event));
  store->rollback();
  EXPECT_EQ(effects() + inbox(), 0);

  ASSERT_TRUE(store->begin());
  EXPECT_TRUE(insert_one(*store, event));
  ASSERT_TRUE(apply_one(*store, event));
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ(inbox(), 1);

  ASSERT_TRUE(store->begin());
  EXPECT_FALSE(insert_one(*store, event)) << "the second time it is a duplicate";
  ASSERT_TRUE(store->commit(0, 1));
  EXPECT_EQ(application.text("SELECT applied || ',' || duplicates FROM dovetail_consumer"), "1,1");
}

TEST_F(InboxRows, EachConsumerHasItsOwn) {
  auto billing = open_store_of("billing");
  auto shipping = open_store_of("shipping");
  ASSERT_TRUE(billing->begin());
  EXPECT_TRUE(insert_one(*billing, event));
  ASSERT_TRUE(billing->commit(1, 0));
  ASSERT_TRUE(shipping->begin());
  EXPECT_TRUE(insert_one(*shipping, event));
  ASSERT_TRUE(shipping->commit(1, 0));
}

TEST_F(InboxRows, ASessionThatWasNotClosedIsNoticed) {
  {
    auto store = open_store_of("billing");
  }
  auto store = open_store_of("billing", false);
  EXPECT_TRUE(store->open().value()) << "a reconnect of a living session is no death";
  ASSERT_TRUE(store->close());
  open_store_of("billing", true);
}

TEST_F(InboxRows, AttemptsAreCountedDurablyAndForgottenWhenApplied) {
  auto store = open_store_of("billing");
  EXPECT_EQ(store->count_attempt(event.id, +1).value(), 1u);
  EXPECT_EQ(store->count_attempt(event.id, +1).value(), 2u);
  store = open_store_of("billing", false);
  EXPECT_EQ(store->count_attempt(event.id, +1).value(), 3u);
  EXPECT_EQ(store->count_attempt(event.id, -1).value(), 2u);
  ASSERT_TRUE(store->begin());
  EXPECT_TRUE(insert_one(*store, event));
  store->rollback();
  EXPECT_EQ(application.number("SELECT attempts FROM dovetail_attempt"), 2);
  ASSERT_TRUE(store->begin());
  EXPECT_TRUE(insert_one(*store, event));
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_attempt"), 0);
  EXPECT_EQ(store->count_attempt(event.id, -5).value(), 0u) << "never below 0";
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_attempt"), 0);
}

TEST_F(InboxRows, AnExceptionOfTheHandlerIsAFailure) {
  handler = [](sqlite3*, const Event&) -> Status { throw std::runtime_error("no such customer"); };
  auto store = open_store_of("billing");
  ASSERT_TRUE(store->begin());
  EXPECT_TRUE(insert_one(*store, event));
  const Status applied = apply_one(*store, event);
  EXPECT_TRUE(failed_with(applied, Errc::failed)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "no such customer")) << text_of(applied);
}

// If the commit succeeded, later events would have inbox rows without effects: lost
// events.
TEST_F(InboxRows, AHandlerThatCommitsIsRefusedAndNothingIsCommitted) {
  for (const char* sql : {"COMMIT", "END", "COMMIT; BEGIN", "RELEASE x; COMMIT"}) {
    handler = [sql](sqlite3* transaction, const Event&) {
      (void)run_sql(transaction, "SAVEPOINT x");
      (void)run_sql(transaction, sql);
      sqlite3_exec(transaction, "BEGIN", nullptr, nullptr, nullptr);
      return Status{};
    };
    auto store = std::make_unique<SqliteInboxStore>(file.path, "billing", handler, system_clock());
    ASSERT_TRUE(store->open());
    ASSERT_TRUE(store->begin());
    EXPECT_TRUE(insert_one(*store, event));
    const Status applied = apply_one(*store, event);
    EXPECT_TRUE(failed_with(applied, Errc::rejected)) << sql << ": " << text_of(applied);
    store->rollback();
    EXPECT_EQ(inbox(), 0) << sql;
  }
}

TEST_F(InboxRows, AHandlerThatRollsBackIsRefusedToo) {
  handler = [](sqlite3* transaction, const Event&) {
    return run_sql(transaction, "ROLLBACK; BEGIN");
  };
  auto store = open_store_of("billing");
  ASSERT_TRUE(store->begin());
  EXPECT_TRUE(insert_one(*store, event));
  const Status applied = apply_one(*store, event);
  EXPECT_TRUE(failed_with(applied, Errc::rejected)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "ended the transaction")) << text_of(applied);
  store->rollback();
  ASSERT_TRUE(store->begin()) << "the store is of use again";
}

TEST_F(InboxRows, ARollbackOfSqliteItselfIsAFailedAttempt) {
  handler = [](sqlite3* transaction, const Event&) {
    (void)run_sql(transaction, "CREATE TEMP TABLE one (n INTEGER UNIQUE ON CONFLICT ROLLBACK)");
    (void)run_sql(transaction, "INSERT INTO one VALUES (1)");
    (void)run_sql(transaction, "INSERT INTO one VALUES (1)");
    return Status{};
  };
  auto store = open_store_of("billing");
  ASSERT_TRUE(store->begin());
  EXPECT_TRUE(insert_one(*store, event));
  const Status applied = apply_one(*store, event);
  EXPECT_TRUE(failed_with(applied, Errc::failed)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "rolled back inside the handler")) << text_of(applied);
}

TEST_F(InboxRows, AReconnectRollsBackEvenWhenTheHandlerKeepsStatements) {
  sqlite3_stmt* kept = nullptr;
  handler = [&](sqlite3* transaction, const Event&) {
    sqlite3_prepare_v2(transaction, "SELECT 1", -1, &kept, nullptr);
    return Status{};
  };
  auto store = open_store_of("billing");
  ASSERT_TRUE(store->begin());
  EXPECT_TRUE(insert_one(*store, event));
  ASSERT_TRUE(apply_one(*store, event));
  const Result<bool> reopened = store->open();
  EXPECT_TRUE(reopened) << text_of(reopened);
  EXPECT_EQ(inbox(), 0);
  sqlite3_finalize(kept);
}

TEST_F(InboxRows, AFailedCallLeavesNoTransactionOpen) {
  auto store = open_store_of("billing");
  Application other(file.path);
  ASSERT_TRUE(store->begin());
  store->rollback();
  other.run("BEGIN IMMEDIATE");
  other.run("COMMIT");
  ASSERT_TRUE(store->begin());
  ASSERT_TRUE(store->commit(0, 0));
}

}  // namespace
}  // namespace dovetail::sqlite
