#include "postgres/work/claims.h"

#include <atomic>
#include <thread>

#include "dovetail/postgres.h"
#include "postgres/testing/test_queue.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using State = Claim::State;

class PostgresClaims : public QueueTest {
 protected:
  // Ends the lease of every claim, as time would.
  void expire() { must(owner_, "UPDATE dovetail.claim SET expires = '-infinity'"); }
};

TEST_F(PostgresClaims, AnEventIsFirstOnceForEachConsumer) {
  const EventId id = new_event_id();
  must(owner_, "BEGIN");
  EXPECT_EQ(claim(owner_.get(), "stock", id).value(), State::first);
  EXPECT_EQ(claim(owner_.get(), "mail", id).value(), State::first);
  EXPECT_EQ(claim(owner_.get(), "stock", id).value(), State::duplicate);
  must(owner_, "COMMIT; BEGIN");
  EXPECT_EQ(claim(owner_.get(), "stock", id).value(), State::duplicate);
}

TEST_F(PostgresClaims, AClaimThatIsRolledBackWasNone) {
  const EventId id = new_event_id();
  must(owner_, "BEGIN");
  EXPECT_EQ(claim(owner_.get(), "stock", id).value(), State::first);
  must(owner_, "ROLLBACK; BEGIN");
  EXPECT_EQ(claim(owner_.get(), "stock", id).value(), State::first);
}

TEST_F(PostgresClaims, WithoutTransactionNothingIsClaimedForGood) {
  const Result<State> refused = claim(owner_.get(), "stock", new_event_id());
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "BEGIN"));
  must(owner_, "BEGIN");
  EXPECT_TRUE(failed_with(claim(owner_.get(), "mail", new_event_id(), 1s), Errc::rejected));
}

TEST_F(PostgresClaims, TheSameEventAtManyServicesAtOnceHasOneEffect) {
  constexpr int kWorkers = 8;
  constexpr int kEvents = 50;
  std::vector<EventId> ids;
  for (int i = 0; i < kEvents; ++i) ids.push_back(new_event_id());
  std::atomic<int> errors{0};
  std::vector<std::thread> workers;
  for (int worker = 0; worker < kWorkers; ++worker)
    workers.emplace_back([&, worker] {
      Connection own = database_.connect();
      for (const EventId& id : ids) {
        const bool done = own.execute("BEGIN").has_value();
        const Result<State> state = claim(own.get(), "stock", id);
        if (!done || !state) ++errors;
        if (state && *state == State::first)
          errors += own.query("INSERT INTO effect VALUES ($1, $2)", Params().uuid(id).int4(worker))
                        ? 0
                        : 1;
        if (!own.execute("COMMIT")) ++errors;
      }
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(effects(), kEvents);
  EXPECT_EQ(number(owner_, "SELECT count(DISTINCT id) FROM effect"), kEvents);
}

TEST_F(PostgresClaims, AHeldEventIsInProgressForOthersUntilItIsDone) {
  const EventId id = new_event_id();
  const Claim mine = claim(owner_.get(), "mail", id, 1min).value();
  EXPECT_EQ(mine.state, State::first);
  EXPECT_EQ(mine.attempts, 1U);
  EXPECT_EQ(claim(owner_.get(), "mail", id, 1min).value().state, State::in_progress);
  EXPECT_TRUE(complete_claim(owner_.get(), "mail", id, mine.epoch));
  EXPECT_EQ(claim(owner_.get(), "mail", id, 1min).value().state, State::duplicate);
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.claim"), 0) << "the inbox has it";
}

TEST_F(PostgresClaims, AfterACrashTheEventIsTakenAgainAndTheZombieIsRefused) {
  const EventId id = new_event_id();
  const Claim dead = claim(owner_.get(), "mail", id, 1min).value();
  expire();
  const Claim heir = claim(owner_.get(), "mail", id, 1min).value();
  EXPECT_EQ(heir.state, State::first);
  EXPECT_EQ(heir.attempts, 2U);
  EXPECT_NE(heir.epoch, dead.epoch);
  must(owner_, "BEGIN; INSERT INTO effect VALUES (NULL, 1)");
  const Status late = complete_claim(owner_.get(), "mail", id, dead.epoch);
  EXPECT_TRUE(failed_with(late, Errc::stopped)) << text_of(late);
  EXPECT_TRUE(contains(text_of(late), "longer lease")) << text_of(late);
  EXPECT_FALSE(owner_.execute("SELECT 1")) << "the transaction can only be rolled back";
  must(owner_, "ROLLBACK");
  EXPECT_TRUE(complete_claim(owner_.get(), "mail", id, heir.epoch));
  EXPECT_EQ(effects(), 0);
}

TEST_F(PostgresClaims, ALeaseEndsByTheDatabasesClock) {
  const EventId id = new_event_id();
  EXPECT_EQ(claim(owner_.get(), "mail", id, 20ms).value().state, State::first);
  EXPECT_TRUE(eventually(
      [&] { return claim(owner_.get(), "mail", id, 1min).value().state == State::first; }));
}

TEST_F(PostgresClaims, AFailureCountsAndARefusalDoesNot) {
  const EventId id = new_event_id();
  Claim mine = claim(owner_.get(), "mail", id, 1min).value();
  EXPECT_TRUE(fail_claim(owner_.get(), "mail", id, mine.epoch, "no route to the host"));
  mine = claim(owner_.get(), "mail", id, 1min).value();
  EXPECT_EQ(mine.attempts, 2U);
  EXPECT_TRUE(release_claim(owner_.get(), "mail", id, mine.epoch));
  EXPECT_TRUE(failed_with(release_claim(owner_.get(), "mail", id, mine.epoch), Errc::stopped));
  mine = claim(owner_.get(), "mail", id, 1min).value();
  EXPECT_EQ(mine.attempts, 2U);
  EXPECT_TRUE(fail_claim(owner_.get(), "mail", id, mine.epoch, "", 1h));
  EXPECT_EQ(claim(owner_.get(), "mail", id, 1min).value().state, State::in_progress);
}

TEST_F(PostgresClaims, WhoWaitedForACompletionSeesADuplicate) {
  const EventId id = new_event_id();
  const Claim mine = claim(owner_.get(), "mail", id, 1min).value();
  expire();
  must(owner_, "BEGIN");
  EXPECT_TRUE(complete_claim(owner_.get(), "mail", id, mine.epoch)) << "nobody else has it";
  Connection other = database_.connect();
  State seen = State::first;
  std::thread waiter([&] { seen = claim(other.get(), "mail", id, 1min).value().state; });
  EXPECT_TRUE(eventually([&] {
    return number(owner_,
                  "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                  "wait_event_type = 'Lock'") == 1;
  }));
  must(owner_, "COMMIT");
  waiter.join();
  EXPECT_EQ(seen, State::duplicate);
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.claim"), 0);
}

TEST_F(PostgresClaims, AnEventOlderThanTheInboxRemembersIsNotClaimed) {
  must(owner_, "SELECT dovetail.consumer_id('old')");
  must(owner_,
       "UPDATE dovetail.consumer SET created_at = now() - interval '9 days'; UPDATE "
       "dovetail.inbox_state SET forgotten_before = now() - interval '1 day'");
  const EventId old = EventId::parse("01890000-0000-7000-8000-000000000001").value();
  const Result<Claim> leased = claim(owner_.get(), "old", old, 1min);
  EXPECT_TRUE(failed_with(leased, Errc::rejected) && contains(text_of(leased), "retention.inbox"));
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.claim"), 0);
  EXPECT_TRUE(claim(owner_.get(), "new", old, 1min)) << "has forgotten nothing";
  must(owner_, "BEGIN");
  EXPECT_TRUE(failed_with(claim(owner_.get(), "old", old), Errc::rejected));
  must(owner_, "ROLLBACK; BEGIN");
  EXPECT_EQ(claim(owner_.get(), "old", new_event_id()).value(), State::first);
  must(owner_, "COMMIT");
  PostgresClaimStore store(database_.conninfo, "old");
  ASSERT_TRUE(store.open());
  Event event;
  event.id = old;
  const Event* events[] = {&event};
  EXPECT_EQ(store.claim(events, 1min).value().at(0).state, State::forgotten);
}

TEST_F(PostgresClaims, AClaimUnderRepeatableReadIsRefused) {
  must(owner_, "BEGIN ISOLATION LEVEL REPEATABLE READ");
  const Result<Rows> refused =
      owner_.query("SELECT dovetail.claim('a', $1, '1 s')", Params().uuid(new_event_id()));
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "READ COMMITTED")) << text_of(refused);
}

TEST_F(PostgresClaims, ALeaseThatMakesNoSenseIsRefused) {
  for (const auto lease : {std::chrono::milliseconds(0), std::chrono::milliseconds(-5),
                           std::chrono::milliseconds(8 * 24h)}) {
    const Result<Claim> refused = claim(owner_.get(), "mail", new_event_id(), lease);
    EXPECT_TRUE(failed_with(refused, Errc::rejected));
    EXPECT_TRUE(contains(text_of(refused), "7 days")) << text_of(refused);
  }
  EXPECT_TRUE(failed_with(claim(owner_.get(), "", new_event_id(), 1s), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::postgres
