#include "core/message/event_template.h"

#include <gtest/gtest.h>

#include <string>

namespace dovetail {
namespace {

Event order_placed() {
  Event event;
  event.id = *EventId::parse("018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09");
  event.topic = "orders";
  event.aggregate_type = "order";
  event.aggregate_id = "42";
  event.type = "OrderPlaced";
  event.content_type = "application/json";
  event.headers = R"({"tenant":"acme","note":"say \"hi\"","\u0074ag":"x"})";
  event.aggregate_version = -7;
  event.created_at = WallTime(std::chrono::microseconds(1));
  return event;
}

std::string filled(std::string_view text) {
  Arena arena;
  const auto parsed = EventTemplate::parse(text);
  if (!parsed) return parsed.error().text;
  return std::string(parsed->fill(order_placed(), arena));
}

TEST(EventTemplate, KnowsEveryField) {
  EXPECT_EQ(filled("{id}"), "018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09");
  EXPECT_EQ(filled("{topic}/{aggregate_type}/{aggregate_id}/{type}/{content_type}"),
            "orders/order/42/OrderPlaced/application/json");
  EXPECT_EQ(filled("v{aggregate_version} at {created_at}."), "v-7 at 1970-01-01T00:00:00.000001Z.");
  EXPECT_EQ(filled("{header.tenant}"), "acme");
  EXPECT_EQ(filled("{header.note}{header.tag}"), "say \"hi\"x");
}

TEST(EventTemplate, AHeaderThatIsNotThereIsEmpty) {
  EXPECT_EQ(filled("{header.none}"), "");
  EXPECT_EQ(filled("a{header.none}b"), "ab");
  Event event = order_placed();
  event.headers = "no headers";
  Arena arena;
  EXPECT_EQ(EventTemplate::parse("{header.tenant}")->fill(event, arena), "");
}

TEST(EventTemplate, DoubledBracesStandForOne) { EXPECT_EQ(filled("{{{type}}}"), "{OrderPlaced}"); }

TEST(EventTemplate, OneFieldAloneIsNotCopied) {
  const Event event = order_placed();
  Arena arena;
  EXPECT_EQ(EventTemplate::parse("{aggregate_id}")->fill(event, arena).data(),
            event.aggregate_id.data());
  EXPECT_EQ(arena.bytes_used(), 0U);
}

TEST(EventTemplate, RefusesUnknownFieldsAndNamesTheAllowed) {
  std::string many;
  for (int i = 0; i < 40; ++i) many += "{id}";
  for (const std::string& text :
       {std::string("{nope}"), std::string("{type"), std::string("type}"), std::string(),
        std::string("{}"), std::string("{header.}"), std::string("{header.a b}"), many}) {
    const auto parsed = EventTemplate::parse(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, Errc::rejected);
    EXPECT_NE(parsed.error().text.find("{header.NAME}"), std::string::npos);
  }
}

}  // namespace
}  // namespace dovetail
