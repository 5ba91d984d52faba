#include "core/life/receipt.h"

#include <gtest/gtest.h>

#include <string>

#include "core/testing/test_relay.h"

namespace dovetail {
namespace {

Event event_at(std::int64_t position, std::string_view topic = "orders") {
  Event event;
  event.position = position;
  event.topic = topic;
  return event;
}

TEST(Receipt, CoversWhatWasAdded) {
  Receipt receipt;
  EXPECT_TRUE(receipt.empty());
  receipt.add(event_at(7), {1, 40});
  receipt.add(event_at(5), {1, 41});
  receipt.add(event_at(9), {0, 12});
  receipt.add(event_at(8, "mails"), {1, 3});
  receipt.add(event_at(6), {1, 39});
  receipt.add(event_at(10), {});
  EXPECT_EQ(receipt.events(), 6U);
  EXPECT_EQ(receipt.first(), 5);
  EXPECT_EQ(receipt.last(), 10);
  EXPECT_EQ(receipt.places(),
            (std::vector<PlaceRange>{
                {"orders", 1, 39, 41, 3}, {"orders", 0, 12, 12, 1}, {"mails", 1, 3, 3, 1}}));
  receipt.clear();
  EXPECT_TRUE(receipt.empty());
  EXPECT_TRUE(receipt.places().empty());
}

TEST(Receipt, ListsNoMoreThanItsLimit) {
  Receipt receipt;
  for (std::int32_t i = 0; i < 1000; ++i) receipt.add(event_at(i), {i, 1});
  EXPECT_EQ(receipt.places().size(), Receipt::kRangesMax);
  EXPECT_EQ(receipt.events(), 1000U);
}

TEST(Receipt, ListsNoTopicThatWouldSpoilItsText) {
  Receipt receipt;
  receipt.add(event_at(1, std::string(Receipt::kTopicBytesMax + 1, 'x')), {0, 1});
  receipt.add(event_at(2, "two\nlines"), {0, 1});
  receipt.add(event_at(3, "a\ttab"), {0, 1});
  EXPECT_TRUE(receipt.places().empty());
  EXPECT_EQ(receipt.events(), 3U) << "that places are missing can be seen";
}

TEST_F(RelayTest, TheReceiptHasWhatTheSinkConfirmedAndNothingElse) {
  MemorySink sink;
  sink.decide_by([](const Event& event) {
    if (event.aggregate_id == "refused") return Outcome{Fate::rejected, 0, "not as it is"};
    return Outcome{.fate = Fate::confirmed, .place = {3, 100 + event.position}};
  });
  publish("a", 2);
  publish("refused");
  publish("b");
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 4; }));
  stop();
  const Receipt& noted = counted_->noted;
  EXPECT_EQ(noted.events(), 3U);
  EXPECT_EQ(noted.first(), 1);
  EXPECT_EQ(noted.last(), 4);
  EXPECT_EQ(noted.places(), (std::vector<PlaceRange>{{"", 3, 101, 104, 3}}));
}

TEST(Receipt, PlacesSurviveAsText) {
  const std::vector<PlaceRange> places = {{"orders", 1, 39, 41, 3}, {"", -1, 5, 5, 1}};
  EXPECT_EQ(parse_places(to_text(places)), places);
  EXPECT_TRUE(parse_places("").empty());
}

TEST(Receipt, WhatIsNoPlaceIsLeftOut) {
  EXPECT_EQ(
      parse_places("orders\tx\t1\t2\t3\nno tabs\n\nmails\t0\t1\t2\t2\tmore\nmails\t0\t1\t2\t2"),
      (std::vector<PlaceRange>{{"mails", 0, 1, 2, 2}}));
}

}  // namespace
}  // namespace dovetail
