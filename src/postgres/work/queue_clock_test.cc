// A queue while the server's clock is set.
#include "postgres/testing/clock_step.h"
#include "postgres/testing/test_queue.h"

namespace dovetail::postgres {
namespace {

using std::chrono::hours;

class PostgresQueueClock : public QueueTest {
 protected:
  void step(hours by) { set_clock(owner_, "dovetail.queue", "due", by); }
  std::vector<Received> take(const std::string& lease = "1 h") {
    return receive(owner_, "stock", 10, lease).value();
  }
  bool comes(const std::string& type) {
    return eventually([&] { return types(take()) == type; });
  }
  // How far away the latest time of the queue is, in seconds.
  std::int64_t latest_s() {
    return number(owner_,
                  "SELECT EXTRACT(epoch FROM max(due) - clock_timestamp())::int8 FROM "
                  "dovetail.queue");
  }
};

TEST_F(PostgresQueueClock, WhatIsThereIsReceivedThoughTheClockWasSetBack) {
  for (const hours by : {hours(-1), hours(-48)}) {
    fill(owner_, "stock", {{"1", "a"}});
    step(by);
    EXPECT_TRUE(comes("a")) << by.count() << " h";
    must(owner_, "TRUNCATE dovetail.queue");
  }
}

TEST_F(PostgresQueueClock, ALeaseEndsAfterItsTermThoughTheClockWasSetBack) {
  for (const hours by : {hours(-1), hours(-48)}) {
    fill(owner_, "stock", {{"1", "a"}});
    ASSERT_EQ(types(take("200 ms")), "a");
    step(by);
    EXPECT_TRUE(comes("a")) << by.count() << " h";
    must(owner_, "TRUNCATE dovetail.queue");
  }
}

TEST_F(PostgresQueueClock, AWorkerKeepsItsEventWhenTheClockIsSetBack) {
  for (const hours by : {hours(-1), hours(-48)}) {
    fill(owner_, "stock", {{"1", "a"}});
    const std::vector<Received> held = take();
    step(by);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(types(take()), "");
    EXPECT_LE(latest_s(), 3600);
    EXPECT_TRUE(settle(owner_, "complete", "stock", held.at(0))) << by.count() << " h";
  }
}

TEST_F(PostgresQueueClock, ALeaseThatWasExtendedLastsItsNewTermAfterAStep) {
  fill(owner_, "stock", {{"1", "a"}});
  const std::vector<Received> held = take("1 s");
  ASSERT_TRUE(owner_.query("SELECT dovetail.extend($1, $2, $3, '2 h')",
                           Params().text("stock").uuid(held.at(0).id).int8(held.at(0).epoch)));
  step(hours(-48));
  EXPECT_EQ(types(take()), "");
  EXPECT_GT(latest_s(), 3600);
  EXPECT_LE(latest_s(), 7200);
}

TEST_F(PostgresQueueClock, APauseEndsAfterItsTermThoughTheClockWasSetBack) {
  fill(owner_, "stock", {{"1", "short"}, {"2", "long"}});
  must(owner_,
       "SELECT dovetail.fail('stock', id, epoch, 'away', CASE type WHEN 'short' THEN interval "
       "'200 ms' ELSE '1 h' END) FROM dovetail.receive('stock', 10)");
  step(hours(-48));
  EXPECT_TRUE(comes("short"));
  EXPECT_GT(latest_s(), 3000);
  EXPECT_LE(latest_s(), 3600);
}

TEST_F(PostgresQueueClock, WhatWaitsIsFoundWhileThereIsAlwaysOtherWork) {
  fill(owner_, "stock", {{"1", "a"}});
  step(hours(-48));
  fill(owner_, "stock", {{"2", "other"}});
  EXPECT_TRUE(eventually([&] {
    const std::vector<Received> one = receive(owner_, "stock").value();
    EXPECT_TRUE(settle(owner_, "release", "stock", one.at(0)));
    return types(one) == "a";
  }));
}

// A lease may end early then; a late worker is told.
TEST_F(PostgresQueueClock, AWorkerThatLostItsEventToAClockThatIsAheadIsFenced) {
  for (const hours by : {hours(1), hours(48)}) {
    fill(owner_, "stock", {{"1", "a"}});
    const std::vector<Received> held = take();
    step(by);
    const std::vector<Received> next = take();
    ASSERT_EQ(types(next), "a");
    EXPECT_TRUE(failed_with(settle(owner_, "complete", "stock", held.at(0)), Errc::stopped));
    EXPECT_TRUE(settle(owner_, "complete", "stock", next.at(0))) << by.count() << " h";
  }
}

}  // namespace
}  // namespace dovetail::postgres
