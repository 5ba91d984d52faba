// A topic as a side of a comparison, on a real server.
#include "kafka/lookup/topic_scan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/inbox/forgotten.h"
#include "host/host.h"
#include "kafka/sink.h"
#include "kafka/test_cluster.h"
#include "kafka/test_events.h"
#include "kit/results.h"

namespace dovetail::kafka {
namespace {

using namespace std::chrono_literals;

class TopicScanTest : public testing::Test {
 protected:
  void send(const std::string& topic, int count, const std::string& payload = "{}") {
    KafkaSink sink(cluster.options(), system_clock());
    const Status opened = sink.open();
    ASSERT_TRUE(opened) << text_of(opened);
    std::vector<Event> views;
    for (int i = 0; i < count; ++i) {
      Event event;
      event.id = new_event_id();
      event.topic = topic;
      event.aggregate_type = "order";
      keys.push_back(std::to_string(i % 50));
      event.aggregate_id = keys.back();
      event.key_hash = key_hash("order", event.aggregate_id);
      event.type = "placed";
      event.content_type = "application/json";
      event.payload = payload;
      event.created_at = system_clock().wall();
      views.push_back(event);
      sent.insert(event.id);
    }
    std::vector<const Event*> all;
    for (const Event& event : views) all.push_back(&event);
    for (const Outcome& outcome : deliver(sink, all)) EXPECT_EQ(outcome.fate, Fate::confirmed);
  }
  std::unique_ptr<reconcile::ReceiverScan> scan(const std::string& topic, WallTime from = {}) {
    auto made = scan_topic(cluster.options(), topic, from, {});
    EXPECT_TRUE(made) << text_of(made);
    return made ? std::move(*made) : nullptr;
  }
  static std::vector<reconcile::Received> rows_of(reconcile::ReceiverScan& scan) {
    std::vector<reconcile::Received> rows;
    for (;;) {
      const auto row = scan.rows().next();
      EXPECT_TRUE(row) << text_of(row);
      if (!row || *row == nullptr) return rows;
      rows.push_back(**row);
    }
  }

  TestCluster cluster;
  std::deque<std::string> keys;
  std::set<EventId> sent;
};

TEST_F(TopicScanTest, ReadsEveryPartitionInTheOrderOfIds) {
  cluster.create_topic("orders", 3);
  send("orders", 500, "{\"n\":1}");
  const WallTime now = system_clock().wall();
  const auto scanned = scan("orders");
  ASSERT_NE(scanned, nullptr);
  EXPECT_EQ(scanned->names(), std::vector<std::string>{"orders"});
  const auto rows = rows_of(*scanned);
  ASSERT_EQ(rows.size(), 500U);
  std::set<std::int32_t> partitions;
  EventId last;
  for (const reconcile::Received& row : rows) {
    EXPECT_LT(last, row.id);
    last = row.id;
    EXPECT_TRUE(sent.contains(row.id));
    EXPECT_EQ(row.digest, payload_digest("{\"n\":1}"));
    EXPECT_LT(now - row.at, 5min);
    partitions.insert(row.partition);
  }
  EXPECT_EQ(partitions, (std::set<std::int32_t>{0, 1, 2}));
  // The offset is that of the message.
  std::map<std::int64_t, std::string> ids;
  for (const RawMessage& message : cluster.messages("orders", 3))
    if (message.partition == rows[0].partition) ids[message.offset] = message.header("ce_id");
  EXPECT_EQ(ids[rows[0].offset], rows[0].id.to_string());
}

TEST_F(TopicScanTest, KnowsSinceWhenTheTopicHasEverything) {
  cluster.create_topic("orders");
  EXPECT_EQ(*scan("orders")->retained_since(), WallTime::min());
  send("orders", 20);
  EXPECT_EQ(*scan("orders")->retained_since(), WallTime::min());
  cluster.delete_before("orders", 5);
  const auto some = scan("orders");
  ASSERT_NE(some, nullptr);
  EXPECT_EQ(rows_of(*some).size(), 15U);
  EXPECT_LT(system_clock().wall() - *some->retained_since(), 5min);
  cluster.delete_before("orders", 20);
  const auto none = scan("orders");
  ASSERT_NE(none, nullptr);
  EXPECT_EQ(*none->retained_since(), none->place().at);
}

TEST_F(TopicScanTest, LeavesOutWhatIsMuchOlder) {
  cluster.create_topic("orders");
  send("orders", 5);
  const auto scanned = scan("orders", system_clock().wall() + 3h);
  ASSERT_NE(scanned, nullptr);
  EXPECT_TRUE(rows_of(*scanned).empty());
}

TEST_F(TopicScanTest, RefusesWhatItCannotJudge) {
  const auto missing = scan_topic(cluster.options(), "nowhere", {}, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::rejected);
  EXPECT_NE(missing.error().text.find("there is no topic"), std::string::npos);
  cluster.create_topic("latest", 1, {{"cleanup.policy", "compact"}});
  const auto compacted = scan_topic(cluster.options(), "latest", {}, {});
  ASSERT_FALSE(compacted);
  EXPECT_NE(compacted.error().text.find("is compacted"), std::string::npos);
}

TEST_F(TopicScanTest, StopsWhenItIsTold) {
  cluster.create_topic("orders");
  send("orders", 3000);
  const auto stopped =
      scan_topic(cluster.options(), "orders", {}, [](std::uint64_t) { return false; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Errc::stopped);
}

}  // namespace
}  // namespace dovetail::kafka
