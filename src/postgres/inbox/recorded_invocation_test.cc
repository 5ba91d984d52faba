#include <gtest/gtest.h>

#include "dovetail/postgres_testing.h"
#include "kit/results.h"

namespace dovetail::postgres {
namespace {

Status handle(Invocation& invocation, const Event& event) {
  if (event.payload == "[]") return invocation.queue("COMMIT");
  DOVETAIL_TRY(invocation.queue("UPDATE stock SET on_hand = on_hand - $2 WHERE product = $1",
                                {event.aggregate_id, 3}));
  NewEvent moved;
  moved.aggregate_type = "stock";
  moved.aggregate_id = event.aggregate_id;
  moved.type = "moved";
  moved.payload = event.payload;
  const Result<EventId> id = invocation.publish(moved);
  return id ? Status{} : fail(id.error());
}

TEST(RecordedInvocation, ShowsWhatAHandlerDoesWithoutAServer) {
  RecordedInvocation invocation;
  test::Consumer consumer([&](const Event& event) { return handle(invocation, event); });
  NewEvent placed;
  placed.aggregate_type = "order";
  placed.aggregate_id = "mug";
  placed.type = "placed";
  placed.payload = "{}";
  EXPECT_EQ(consumer.deliver(placed)->fate, test::Fate::applied);
  ASSERT_EQ(invocation.queued().size(), 1U);
  EXPECT_TRUE(contains(invocation.queued()[0].sql, "UPDATE stock"));
  EXPECT_EQ(invocation.queued()[0].params.at(0).value, "mug");
  EXPECT_EQ(invocation.queued()[0].params.at(1).value, "3");
  ASSERT_EQ(invocation.published().size(), 1U);
  EXPECT_EQ(invocation.published()[0].type, "moved");

  placed.payload = "[]";
  EXPECT_EQ(consumer.deliver(placed)->fate, test::Fate::parked) << "it ends the transaction";
  EXPECT_TRUE(failed_with(invocation.connection(), Errc::rejected));
  NewEvent empty;
  EXPECT_TRUE(failed_with(invocation.publish(empty), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::postgres
