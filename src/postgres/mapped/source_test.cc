// Which rows are read, in which order, by which lane.
#include <set>
#include <thread>

#include "postgres/testing/test_mapped.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

using Mapped = MappedTest;

TEST_F(Mapped, LateCommitIsNeverSkipped) {
  make(kNumberTable);
  Connection late = database.connect();
  must(late, "BEGIN; INSERT INTO shop.events (who, what, body) VALUES ('a', 'x', 'late')");
  insert_number("b", "early");
  MappedLane& lane = serve(number_mapping());
  Batch batch;
  EXPECT_EQ(lane.read(batch), std::vector<std::string>{"early"});
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_TRUE(lane.read().empty());
  must(late, "COMMIT");
  EXPECT_EQ(lane.read(), std::vector<std::string>{"late"});
}

TEST_F(Mapped, PositionGrowsAlsoForALateCommit) {
  make(kNumberTable);
  Connection late = database.connect();
  must(late, "BEGIN; INSERT INTO shop.events (who, what, body) VALUES ('a', 'x', 'late')");
  for (int i = 0; i < 5; ++i) insert_number("a", "early");
  MappedLane& lane = serve(number_mapping());
  Batch early;
  ASSERT_EQ(lane.read(early).size(), 5u);
  must(late, "COMMIT");
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  EXPECT_GT(batch.events()[0].position, early.events()[4].position);
}

TEST_F(Mapped, WhatIsInFlightIsNotReadTwiceUntilReopened) {
  make(kNumberTable);
  for (int i = 1; i <= 6; ++i) insert_number("k", std::to_string(i));
  MappedLane& lane = serve(number_mapping());
  Batch first;
  Batch second;
  EXPECT_EQ(lane.read(first, 2), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(lane.read(second, 3), (std::vector<std::string>{"3", "4", "5"}));
  ASSERT_TRUE(lane.settle(first));
  EXPECT_EQ(lane.read(), std::vector<std::string>{"6"});
  EXPECT_TRUE(lane.read().empty());
  ASSERT_TRUE(lane.source.open());
  EXPECT_EQ(lane.read(), (std::vector<std::string>{"3", "4", "5", "6"}));
}

TEST_F(Mapped, BatchKeepsItsLimitOfBytes) {
  make(kNumberTable);
  for (int i = 0; i < 5; ++i) insert_number("k", std::string(1000, 'x'));
  MappedLane& lane = serve(number_mapping());
  Limits limits;
  limits.bytes_max = 2500;
  Batch batch;
  ASSERT_TRUE(lane.source.read(batch, limits, {}));
  EXPECT_EQ(batch.size(), 2u);
  // A single larger event is read alone.
  limits.bytes_max = 10;
  Batch large;
  ASSERT_TRUE(lane.source.read(large, limits, {}));
  EXPECT_EQ(large.size(), 1u);
}

TEST_F(Mapped, ReadWaitsForARow) {
  make(kNumberTable);
  MappedLane& lane = serve(number_mapping());
  std::thread writer([&] {
    Connection connection = database.connect();
    must(connection, "INSERT INTO shop.events (who, what, body) VALUES ('k', 'x', 'y')");
  });
  Batch batch;
  Limits limits;
  limits.wait_max = 30s;
  EXPECT_TRUE(lane.source.read(batch, limits, {}));
  EXPECT_EQ(batch.size(), 1u);
  writer.join();
}

TEST_F(Mapped, LanesShareTheRowsAndKeepAKeyTogether) {
  make(kNumberTable);
  make(
      "INSERT INTO shop.events (who, what, body) SELECT 'key' || i % 20, 'x', i::text::bytea FROM "
      "generate_series(1, 400) AS i; INSERT INTO shop.events (who, what, body) SELECT NULL, 'x', "
      "'none' FROM generate_series(1, 50)");
  std::size_t read = 0;
  std::size_t lanes_used = 0;
  std::set<std::string> keys;
  for (std::uint32_t i = 0; i < 4; ++i) {
    MappedLane& lane = serve(number_mapping(), i, 4);
    Batch batch;
    lane.read(batch);
    read += batch.size();
    lanes_used += batch.empty() ? 0 : 1;
    std::set<std::string> of_lane;
    for (const Event& event : batch.events())
      if (event.has_key()) of_lane.emplace(event.aggregate_id);
    for (const std::string& key : of_lane) EXPECT_TRUE(keys.insert(key).second) << key;
    for (const Event& event : batch.events()) park(lane, event);
    EXPECT_EQ(
        number(application, "SELECT count(*) FROM dovetail.parked WHERE bucket * 4 / 256 <> " +
                                std::to_string(i)),
        0);
    make("DELETE FROM dovetail.parked");
  }
  EXPECT_EQ(read, 450u);
  EXPECT_EQ(keys.size(), 20u);
  EXPECT_EQ(lanes_used, 4u);
}

TEST_F(Mapped, WhatComesAfterAParkedEventStandsBehindIt) {
  make(kNumberTable);
  insert_number("k", "x");
  {
    MappedLane& lane = serve(number_mapping());
    Batch batch;
    ASSERT_EQ(lane.read(batch).size(), 1u);
    park(lane, batch.events()[0]);
    ASSERT_TRUE(lane.settle(batch, Settled::parked));
    make("UPDATE dovetail.parked SET position = 1000000");
    ASSERT_TRUE(lane.lease.release());
  }
  insert_number("k", "y");
  MappedLane& lane = serve(number_mapping());
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  EXPECT_GT(batch.events()[0].position, 1'000'000);
}

}  // namespace
}  // namespace dovetail::postgres
