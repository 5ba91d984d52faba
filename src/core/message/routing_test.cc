#include "core/message/routing.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

std::string routed(std::string_view text, std::string_view own_topic = {}) {
  Event event;
  event.aggregate_type = "order";
  event.aggregate_id = "42";
  event.type = "OrderPlaced";
  event.topic = own_topic;
  Arena arena;
  return std::string(TopicTemplate::parse(text)->route(event, arena));
}

TEST(TopicTemplate, FillsInFields) {
  EXPECT_EQ(routed("{aggregate_type}.events"), "order.events");
  EXPECT_EQ(routed("x.{type}.{aggregate_id}"), "x.OrderPlaced.42");
  EXPECT_EQ(routed("plain"), "plain");
  EXPECT_EQ(routed("{{{type}}}"), "{OrderPlaced}");
}

TEST(TopicTemplate, LeavesThePublishersChoice) {
  EXPECT_EQ(routed("{aggregate_type}.events", "special"), "special");
}

TEST(TopicTemplate, RefusesUnknownFieldsAndNamesTheAllowed) {
  for (const char* text : {"{nope}", "{type", "type}", "", "{}"}) {
    const auto parsed = TopicTemplate::parse(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_NE(parsed.error().text.find("{aggregate_type}"), std::string::npos);
    EXPECT_EQ(parsed.error().text.find("topic template"), 0U);
  }
}

TEST(TopicTemplate, IsNotMadeOfTheTopic) {
  EXPECT_FALSE(TopicTemplate::parse("x.{topic}").has_value());
}

}  // namespace
}  // namespace dovetail
