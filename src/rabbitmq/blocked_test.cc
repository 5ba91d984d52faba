// A server short of memory stops accepting messages. This server belongs to the test.
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "core/event/batch.h"
#include "rabbitmq/sink.h"
#include "rabbitmq/test_broker.h"

namespace dovetail::rabbitmq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RabbitmqBlockedTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(started_.server().missing, "");
    broker_ = std::make_unique<TestBroker>(started_.server());
    broker_->make_queue("orders");
    Options options = broker_->options();
    options.blocked_wait_max = milliseconds(500);
    auto made = RabbitmqSink::make(options, system_clock());
    ASSERT_TRUE(made);
    sink_ = std::move(*made);
    ASSERT_TRUE(sink_->open());
  }
  std::vector<const Event*> events(std::size_t count) {
    std::vector<const Event*> made;
    for (std::size_t i = 0; i < count; ++i) {
      Event one;
      one.id = new_event_id();
      one.topic = "orders";
      one.aggregate_type = "order";
      one.type = "changed";
      one.payload = "{}";
      Batch& batch = batches_.emplace_back();
      batch.append(one);
      made.push_back(&batch.events()[0]);
    }
    return made;
  }
  // Collects one batch, or returns the error.
  Result<std::vector<Outcome>> collect(std::size_t count) {
    std::vector<Outcome> outcomes(count);
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      const Result<bool> known = sink_->collect(outcomes, milliseconds(50));
      if (!known) return fail(known.error());
      if (*known) return outcomes;
    }
    return fail(Errc::in_doubt, "neither an outcome nor an error within the limit");
  }
  void block() { ASSERT_TRUE(broker_->ctl("set_vm_memory_high_watermark 0")); }
  void unblock() { ASSERT_TRUE(broker_->ctl("set_vm_memory_high_watermark 0.4")); }

  servers::Started started_{"rabbitmq"};
  std::unique_ptr<TestBroker> broker_;
  std::unique_ptr<RabbitmqSink> sink_;
  std::deque<Batch> batches_;
};

TEST_F(RabbitmqBlockedTest, AServerWithoutMemoryIsNamedCountsNothingAndIsGoneOnWith) {
  block();
  const std::vector<const Event*> first = events(200);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(sink_->submit(first)) << "nothing waits in submit";
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  const auto blocked = collect(first.size());
  ASSERT_FALSE(blocked);
  EXPECT_EQ(blocked.error().code, Errc::unavailable) << "no attempt is counted";
  EXPECT_NE(blocked.error().text.find("memory"), std::string::npos) << blocked.error().text;

  // Like the relay: repeats as long as it lasts.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(sink_->open());
    ASSERT_TRUE(sink_->submit(first));
    const auto still = collect(first.size());
    ASSERT_FALSE(still);
    EXPECT_EQ(still.error().code, Errc::unavailable) << still.error().text;
  }
  ASSERT_TRUE(sink_->open());
  unblock();
  ASSERT_TRUE(sink_->submit(first));
  const auto done = collect(first.size());
  ASSERT_TRUE(done) << done.error().text;
  for (const Outcome& outcome : *done) EXPECT_EQ(outcome.fate, Fate::confirmed) << outcome.reason;

  // The server may have received the whole first try before it could answer. Each later try has
  // cost one message, not another copy of all.
  std::multiset<std::string> ids;
  for (const Json& message : broker_->messages("orders", "10"))
    ids.insert(message.get("properties").get("message_id").text());
  std::set<std::string> distinct(ids.begin(), ids.end());
  EXPECT_EQ(distinct.size(), first.size());
  EXPECT_LE(ids.size(), 2 * first.size() + 10);
}

}  // namespace
}  // namespace dovetail::rabbitmq
