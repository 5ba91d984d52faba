// One event in the places that a relay noted, on a real server.
#include "kafka/lookup/find_event.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "core/life/receipt.h"
#include "host/host.h"
#include "kafka/sink.h"
#include "kafka/test_cluster.h"
#include "kafka/test_events.h"
#include "kit/eventually.h"
#include "kit/results.h"

namespace dovetail::kafka {
namespace {

using namespace std::chrono_literals;

class FindEventTest : public testing::Test {
 protected:
  FindEventTest() { cluster.create_topic("orders", 3); }

  // Returns the outcomes; `receipt` gets them, too.
  std::vector<Outcome> send(int count) {
    KafkaSink sink(cluster.options(), system_clock());
    const Status opened = sink.open();
    EXPECT_TRUE(opened) << text_of(opened);
    std::vector<const Event*> views;
    for (int i = 0; i < count; ++i) {
      Event event;
      event.id = new_event_id();
      event.topic = "orders";
      event.aggregate_type = "order";
      keys.push_back(std::to_string(i % 50));
      event.aggregate_id = keys.back();
      event.key_hash = key_hash("order", event.aggregate_id);
      event.type = "placed";
      event.payload = "{}";
      event.position = i + 1;
      views.push_back(&events.emplace_back(event));
    }
    const std::vector<Outcome> outcomes = deliver(sink, views);
    for (std::size_t i = 0; i < views.size(); ++i) receipt.add(*views[i], outcomes[i].place);
    return outcomes;
  }
  Result<life::BrokerAnswer> find(const EventId& id, Duration time_max = 60s) {
    return find_event(cluster.options(), id, receipt.places(), time_max);
  }

  TestCluster cluster;
  std::deque<std::string> keys;
  std::deque<Event> events;
  Receipt receipt;
};

TEST_F(FindEventTest, FindsItWhereTheSinkPutIt) {
  const std::vector<Outcome> outcomes = send(300);
  ASSERT_EQ(receipt.places().size(), 3U);
  for (const std::size_t i : {0U, 137U, 299U}) {
    const auto answer = find(events[i].id);
    ASSERT_TRUE(answer) << text_of(answer);
    ASSERT_EQ(answer->messages.size(), 1U);
    const life::MessageFacts& found = answer->messages[0];
    EXPECT_EQ(found.topic, "orders");
    EXPECT_EQ(found.place.partition, outcomes[i].place.partition);
    EXPECT_EQ(found.place.offset, outcomes[i].place.offset);
    EXPECT_LT(system_clock().wall() - found.at, 10min);
  }
}

TEST_F(FindEventTest, ReadsTheNotedRangesOnly) {
  send(100);
  receipt.clear();
  const EventId outside = events.front().id;
  send(100);
  const auto answer = find(outside);
  ASSERT_TRUE(answer) << text_of(answer);
  EXPECT_TRUE(answer->messages.empty());
  EXPECT_EQ(answer->unread, 0U);
}

TEST_F(FindEventTest, WhatTheTopicHasDeletedIsNotWaitedFor) {
  send(100);
  for (const PlaceRange& range : receipt.places())
    cluster.delete_before("orders", range.last + 1, range.partition);
  const auto answer = find(events.front().id);
  ASSERT_TRUE(answer) << text_of(answer);
  EXPECT_TRUE(answer->messages.empty());
  EXPECT_EQ(answer->unread, 0U);
}

TEST_F(FindEventTest, WithoutTimeItSaysHowMuchIsUnread) {
  send(100);
  life::BrokerAnswer answer;
  ASSERT_TRUE(eventually([&] {
    auto came = find(new_event_id(), 1us);
    if (came) answer = std::move(*came);
    return came.has_value();
  }));
  EXPECT_TRUE(answer.messages.empty());
  EXPECT_GT(answer.unread, 0U);
}

TEST_F(FindEventTest, ABrokerThatIsAwayIsAnError) {
  Options options = cluster.options();
  options.brokers = "127.0.0.1:1";
  const std::vector<PlaceRange> places = {{"orders", 0, 0, 9, 10}};
  const auto answer = find_event(options, new_event_id(), places, 1s);
  EXPECT_TRUE(failed_with(answer, Errc::unavailable)) << text_of(answer);
}

}  // namespace
}  // namespace dovetail::kafka
