#include "command/event_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/event/batch.h"

namespace dovetail::command {
namespace {

using Json = nlohmann::json;

Event sample() {
  Event event;
  event.id = *EventId::parse("0190f7c3-5b1e-7cc1-8a8e-4d9f2a7b6c5d");
  event.topic = "orders";
  event.aggregate_type = "order";
  event.aggregate_id = "17 \"quoted\"\n";
  event.type = "placed";
  event.content_type = "application/json";
  event.headers = "{\"trace\":\n\"00-ab\"}";
  event.payload = "{\"total\":\"5 €\"}";
  event.aggregate_version = 12;
  event.created_at = WallTime(std::chrono::seconds(1'700'000'000));
  return event;
}

TEST(EventJson, HoldsEveryFieldOnOneLine) {
  const std::string text = event_json(sample());
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["id"], "0190f7c3-5b1e-7cc1-8a8e-4d9f2a7b6c5d");
  EXPECT_EQ(json["topic"], "orders");
  EXPECT_EQ(json["aggregate_type"], "order");
  EXPECT_EQ(json["aggregate_id"], "17 \"quoted\"\n");
  EXPECT_EQ(json["type"], "placed");
  EXPECT_EQ(json["content_type"], "application/json");
  EXPECT_EQ(json["headers"]["trace"], "00-ab");
  EXPECT_EQ(json["payload"], "{\"total\":\"5 €\"}");
  EXPECT_EQ(json["aggregate_version"], 12);
  EXPECT_EQ(json["created_at"], "2023-11-14T22:13:20.000000Z");
  EXPECT_FALSE(json.contains("payload_base64"));
}

TEST(EventJson, APayloadThatIsNoTextComesInBase64) {
  Event event = sample();
  const std::string payload("\xff\x00\x01", 3);
  event.payload = payload;
  event.headers = "";
  const Json json = Json::parse(event_json(event));
  EXPECT_EQ(json["payload_base64"], "/wAB");
  EXPECT_FALSE(json.contains("payload"));
  EXPECT_EQ(json["headers"], Json::object());
}

TEST(EventJson, Base64EndsAsTheStandardSays) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
}

TEST(LastLine, IsTheLastOneWithSomethingOnIt) {
  EXPECT_EQ(last_line(""), "");
  EXPECT_EQ(last_line("one\ntwo\n\n"), "two");
  EXPECT_EQ(last_line("only"), "only");
  EXPECT_EQ(last_line(" \n\t\n"), "");
}

TEST(LastLine, IsTextThatCanBeShownAndNotLong) {
  EXPECT_EQ(last_line("a\x1b[31mred\x7f."), "a [31mred .");
  EXPECT_EQ(last_line("bad \xff\xfe bytes, and more of them"), "bad ?? bytes, and more of them");
  std::string euros;
  for (int i = 0; i < 200; ++i) euros += "€";
  EXPECT_EQ(last_line(euros), euros.substr(0, 300));
  EXPECT_EQ(last_line("x" + euros), "x" + euros.substr(0, 297));
  EXPECT_EQ(last_line("\xac 5 € missing"), "? 5 € missing") << "cut inside its first character";
}

}  // namespace
}  // namespace dovetail::command
