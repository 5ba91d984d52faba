// What a filter leaves out.
#include "core/message/relay_filter.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

Event event_of(std::string_view type, std::string_view headers = {}) {
  Event event;
  event.topic = "shop.events";
  event.aggregate_type = "order";
  event.type = type;
  event.headers = headers;
  return event;
}

TEST(RelayFilterTest, EveryListThatIsThereMustAccept) {
  EXPECT_TRUE(RelayFilter{}.accepts(event_of("order.placed")));
  const RelayFilter types{.types = {"order.*", "mail"}};
  EXPECT_TRUE(types.accepts(event_of("order.placed")));
  EXPECT_TRUE(types.accepts(event_of("mail")));
  EXPECT_FALSE(types.accepts(event_of("mails")));
  const RelayFilter both{.topics = {"shop.*"}, .aggregate_types = {"customer"}};
  EXPECT_FALSE(both.accepts(event_of("order.placed")));
  EXPECT_FALSE((RelayFilter{.topics = {""}}).accepts(event_of("order.placed")));
}

TEST(RelayFilterTest, AHeaderMustBeThereAndMatch) {
  const RelayFilter filter{.headers = {{"region", "eu*"}, {"region", "uk"}, {"tier", "*"}}};
  EXPECT_TRUE(filter.accepts(event_of("a", R"({"tier":"gold","region":"eu-west"})")));
  EXPECT_TRUE(filter.accepts(event_of("a", R"({"region":"uk","tier":""})")));
  EXPECT_FALSE(filter.accepts(event_of("a", R"({"region":"us","tier":"gold"})")));
  EXPECT_FALSE(filter.accepts(event_of("a", R"({"region":"uk"})"))) << "a tier is wanted, too";
  EXPECT_FALSE(filter.accepts(event_of("a")));
  EXPECT_TRUE(filter.accepts(event_of("a", R"({"regi\u006fn":"uk","tier":"x"})")));
}

TEST(RelayFilterTest, IsKeptAsJson) {
  EXPECT_EQ(RelayFilter{}.json(), "");
  const RelayFilter filter{.types = {"order.*", "a\"b"},
                           .headers = {{"region", "eu"}, {"region", "uk"}}};
  EXPECT_EQ(filter.json(), R"({"types":["order.*","a\"b"],"headers":{"region":["eu","uk"]}})");
}

}  // namespace
}  // namespace dovetail
