#include "sqlite/work/claims.h"

#include <gtest/gtest.h>

#include "core/testing/test_clock.h"
#include "core/testing/test_sinks.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

class SqliteClaimsTest : public testing::Test {
 protected:
  Claim claim(ClaimStore& store, const Event* event) {
    EXPECT_TRUE(store.open());
    const auto claims = store.claim({&event, 1}, std::chrono::minutes(1));
    EXPECT_TRUE(claims) << claims.error().text;
    return claims ? (*claims)[0] : Claim{};
  }
  bool complete(ClaimStore& store, const Event* event, const Claim& claim) {
    bool done = false;
    EXPECT_TRUE(store.complete({&event->id, 1}, {&claim.epoch, 1}, {&done, 1}));
    return done;
  }

  TestFile file_;
  TestClock clock_;
  NumberedEvents events_;
};

TEST_F(SqliteClaimsTest, AClaimOfAnEarlierBootHasEnded) {
  SqliteClaimStore before(file_.path, "mail", clock_, "boot 1");
  SqliteClaimStore after(file_.path, "mail", clock_, "boot 2");
  const Event* event = events_.make("a", "1");
  EXPECT_EQ(claim(before, event).state, Claim::State::first);
  const Claim taken = claim(after, event);
  EXPECT_EQ(taken.state, Claim::State::first);
  EXPECT_EQ(taken.attempts, 2U);
}

TEST_F(SqliteClaimsTest, WhatIsCompletedIsARowOfTheInboxAndCounted) {
  SqliteClaimStore store(file_.path, "mail", clock_, "boot");
  const Event* event = events_.make("a", "1");
  EXPECT_TRUE(complete(store, event, claim(store, event)));
  EXPECT_EQ(claim(store, event).state, Claim::State::duplicate);
  Application application(file_.path);
  EXPECT_EQ(application.text("SELECT count(*) FROM dovetail_inbox"), "1");
  EXPECT_EQ(application.text("SELECT count(*) FROM dovetail_claim"), "0") << "it stays small";
  EXPECT_EQ(application.text("SELECT applied || ' ' || duplicates FROM dovetail_consumer"), "1 1");
  ASSERT_EQ(application.run("BEGIN IMMEDIATE"), SQLITE_OK);
  const Result<Claim::State> first = sqlite::claim(application.connection, "mail", event->id);
  EXPECT_EQ(first.value(), Claim::State::duplicate)
      << "a service that claims by itself sees it, too";
  application.run("ROLLBACK");
}

TEST_F(SqliteClaimsTest, WhatTheInboxHasIsADuplicate) {
  SqliteClaimStore store(file_.path, "mail", clock_, "boot");
  const Event* event = events_.make("a", "1");
  Application application(file_.path);
  ASSERT_EQ(application.run("BEGIN IMMEDIATE"), SQLITE_OK);
  ASSERT_TRUE(sqlite::claim(application.connection, "mail", event->id));
  ASSERT_EQ(application.run("COMMIT"), SQLITE_OK);
  EXPECT_EQ(claim(store, event).state, Claim::State::duplicate);
}

TEST_F(SqliteClaimsTest, AFileThatIsBusyIsUnavailableAndNothingIsClaimed) {
  SqliteClaimStore store(file_.path, "mail", clock_, "boot");
  const Event* event = events_.make("a", "1");
  ASSERT_TRUE(store.open());
  Application application(file_.path);
  ASSERT_EQ(application.run("BEGIN IMMEDIATE"), SQLITE_OK);
  const auto refused = store.claim({&event, 1}, std::chrono::minutes(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  application.run("ROLLBACK");
  EXPECT_EQ(claim(store, event).attempts, 1U);
}

}  // namespace
}  // namespace dovetail::sqlite
