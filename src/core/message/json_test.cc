#include "core/message/json.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

TEST(Json, MembersAreFoundAtAnyDepth) {
  const std::string text = R"( {"stream":"ORDERS", "seq":12,"duplicate": true,)"
                           R"("error":{"code":503,"d":"a\"b"},"n":null} )";
  const Json json = Json::parse(text);
  ASSERT_TRUE(json.is_there());
  EXPECT_EQ(json.get("stream").text(), "ORDERS");
  EXPECT_EQ(json.get("seq").number(), 12);
  EXPECT_TRUE(json.get("duplicate").is_true());
  EXPECT_EQ(json.get("error").get("code").number_or(0), 503);
  EXPECT_EQ(json.get("error").get("d").text(), "a\"b");
  EXPECT_TRUE(json.get("n").is_null());
}

TEST(Json, WhatIsNotThereIsAbsentAllTheWayDown) {
  const Json json = Json::parse(R"({"a":1})");
  EXPECT_FALSE(json.get("b").get("c").is_there());
  EXPECT_FALSE(json.get("a").get("c").is_there());
  EXPECT_EQ(json.get("b").number_or(7), 7);
  EXPECT_TRUE(json.get("b").is_null());
  EXPECT_EQ(json.get("b").text(), "");
  EXPECT_TRUE(json.get("a").items().empty());
}

TEST(Json, ItemsOfAnArrayComeInOrder) {
  const std::string text = R"({"streams":["A","B" , ["C"]], "none":[], "null":null})";
  const Json json = Json::parse(text);
  const auto items = json.get("streams").items();
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[1].text(), "B");
  EXPECT_EQ(items[2].items().at(0).text(), "C");
  EXPECT_TRUE(json.get("none").items().empty());
  EXPECT_TRUE(json.get("null").items().empty());
}

TEST(Json, EscapesAreDecoded) {
  const std::string text = R"("a\u003e\n\u00e9\ud83d\ude00\ud800x")";
  EXPECT_EQ(Json::parse(text).text(),
            "a>\n\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd"
            "x");
}

TEST(Json, NumbersThatAreNotWholeOrTooLargeAreNone) {
  EXPECT_EQ(Json::parse("1.5").number(), std::nullopt);
  EXPECT_EQ(Json::parse("1e3").number(), std::nullopt);
  EXPECT_EQ(Json::parse("99999999999999999999").number(), std::nullopt);
  EXPECT_EQ(Json::parse("-7").number(), -7);
}

TEST(Json, WhatIsNoJsonIsAbsent) {
  for (const std::string_view text :
       {"", "{", "{\"a\"}", "{\"a\":}", "[1,]", "{\"a\":1,}", "tru", "1 2", "\"a", "{'a':1}", "-"})
    EXPECT_FALSE(Json::parse(text).is_there()) << text;
  EXPECT_FALSE(Json::parse(std::string(100, '[') + std::string(100, ']')).is_there());
}

TEST(Json, NumbersAndBooleansHaveTheTextInWhichTheyAreWritten) {
  const Json json = Json::parse(R"({"ttl":60000,"part":-1.5e3,"on":true,"none":null,"list":[1]})");
  EXPECT_EQ(json.get("ttl").text(), "60000");
  EXPECT_EQ(json.get("part").text(), "-1.5e3");
  EXPECT_EQ(json.get("on").text(), "true");
  EXPECT_EQ(json.get("none").text() + json.get("list").text(), "");
}

TEST(Json, MembersKeepTheTextThatWasGivenAway) {
  Json member;
  {
    const Json whole = Json::keep(R"({"a":{"b":"c"}})");
    member = whole.get("a").get("b");
  }
  EXPECT_EQ(member.text(), "c");
  EXPECT_FALSE(Json::keep("{").is_there());
}

TEST(Json, TextsAreQuoted) {
  EXPECT_EQ(json_text("a\"b\\c\n"), R"("a\"b\\c\u000a")");
  const std::string text = json_text("any \x01 thing");
  EXPECT_EQ(Json::parse(text).text(), "any \x01 thing");
}

}  // namespace
}  // namespace dovetail
