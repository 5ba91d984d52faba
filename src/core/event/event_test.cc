#include "dovetail/event.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/event/utf8.h"

namespace dovetail {
namespace {

NewEvent order_placed() {
  NewEvent event;
  event.aggregate_type = "order";
  event.aggregate_id = "42";
  event.type = "OrderPlaced";
  event.payload = R"({"total":99})";
  return event;
}

void expect_refused(const NewEvent& event, std::string_view hint) {
  const Status status = validate(event);
  ASSERT_FALSE(status.has_value()) << hint;
  EXPECT_EQ(status.error().code, Errc::rejected);
  EXPECT_NE(status.error().text.find(hint), std::string::npos) << status.error().text;
}

TEST(Validate, AcceptsAnOrdinaryEvent) { EXPECT_TRUE(validate(order_placed()).has_value()); }

TEST(Validate, AcceptsAnEventWithoutKey) {
  NewEvent event = order_placed();
  event.aggregate_id = "";
  EXPECT_TRUE(validate(event).has_value());
}

TEST(Validate, RefusesEmptyFieldsByName) {
  NewEvent event = order_placed();
  event.payload = "";
  expect_refused(event, "payload is empty");
  event = order_placed();
  event.type = "";
  expect_refused(event, "type is empty");
  event = order_placed();
  event.aggregate_type = "";
  expect_refused(event, "aggregate type is empty");
}

TEST(Validate, RefusesWhatIsTooLongAndSaysTheLimit) {
  const std::string long_text(2000, 'x');
  NewEvent event = order_placed();
  event.aggregate_id = long_text;
  expect_refused(event, "at most 1024");
  event = order_placed();
  event.type = long_text;
  expect_refused(event, "at most 255");
  event = order_placed();
  const std::string payload((1000 << 10) + 1, 'x');
  event.payload = payload;
  expect_refused(event, "the limit is 1024000");
  event.payload = std::string_view(payload).substr(1);
  EXPECT_TRUE(validate(event).has_value()) << "exactly the limit is allowed";
}

TEST(Validate, RefusesTextThatIsNotUtf8) {
  NewEvent event = order_placed();
  event.aggregate_id = "\xff\xfe";
  expect_refused(event, "key is not valid UTF-8");
  event = order_placed();
  event.type = std::string_view("a\0b", 3);
  expect_refused(event, "NUL");
}

TEST(Validate, LeavesPayloadBytesAlone) {
  NewEvent event = order_placed();
  event.payload = std::string_view("\xff\0\xfe", 3);
  EXPECT_TRUE(validate(event).has_value());
}

TEST(Validate, RefusesMalformedHeaders) {
  NewEvent event = order_placed();
  for (const Header& header : {Header{"", "x"}, Header{"a b", "x"}, Header{"a:b", "x"},
                               Header{"a", "line\r\nbreak"}, Header{"a", "\xff"}}) {
    event.headers = {&header, 1};
    expect_refused(event, "header");
  }
  const std::vector<Header> many(100, Header{"name", std::string(200, 'x')});
  event.headers = many;
  expect_refused(event, "at most 16384");
}

TEST(Headers, EncodeAsAFlatJsonObject) {
  const Header headers[] = {{"traceparent", "00-ab-cd-01"}, {"note", "say \"hi\" \\ \t"}};
  const auto encoded = encode_headers(headers);
  ASSERT_TRUE(encoded.has_value());
  EXPECT_EQ(*encoded, R"({"traceparent":"00-ab-cd-01","note":"say \"hi\" \\ \u0009"})");
}

TEST(Headers, NoneEncodeAsNothing) {
  EXPECT_EQ(*encode_headers({}), "");
  EXPECT_TRUE(decode_headers("")->empty());
  EXPECT_TRUE(decode_headers(" { } ")->empty());
}

TEST(Headers, DecodeEveryEscapeOfJson) {
  const auto headers = decode_headers(R"({ "a" : "\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00" , "b":"" })");
  ASSERT_TRUE(headers.has_value());
  ASSERT_EQ(headers->size(), 2U);
  EXPECT_EQ((*headers)[0].value, "\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80");
}

TEST(Headers, RefuseWhatIsNotAFlatObjectOfStrings) {
  for (const char* text :
       {"{", "}", "[]", "\"a\"", "{\"a\"}", "{\"a\":1}", "{\"a\":{}}", "{\"a\":\"b\",}",
        "{\"a\":\"b\"} x", "{\"a\":\"\\x\"}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\u12\"}", "{\"a\":\"\n\"}", "{\"a\":\"b", "{\"\xff\":\"b\"}"}) {
    const auto headers = decode_headers(text);
    ASSERT_FALSE(headers.has_value()) << text;
    EXPECT_EQ(headers.error().code, Errc::rejected);
  }
}

rc::Gen<std::string> utf8_text() {
  return rc::gen::map(rc::gen::container<std::vector<std::uint32_t>>(
                          rc::gen::inRange<std::uint32_t>(0x20, 0x10ffff)),
                      [](const std::vector<std::uint32_t>& codes) {
                        std::string text;
                        for (const auto code : codes) {
                          if (code == 0x7f || (code >= 0xd800 && code <= 0xdfff)) continue;
                          append_utf8(text, code);
                        }
                        return text;
                      });
}

RC_GTEST_PROP(Headers, SurviveTheRoundTrip, ()) {
  const auto values = *rc::gen::container<std::vector<std::string>>(utf8_text());
  std::vector<Header> headers;
  for (const auto& value : values) headers.push_back({"h" + std::to_string(headers.size()), value});
  const auto encoded = encode_headers(headers);
  RC_ASSERT(encoded.has_value());
  const auto decoded = decode_headers(*encoded);
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(*decoded == headers);
}

RC_GTEST_PROP(Headers, NeverCrashOnAnyBytes, (const std::string& bytes)) {
  (void)decode_headers(bytes);
  (void)decode_headers("{\"" + bytes);
}

TEST(Utf8, KnowsTheBorders) {
  EXPECT_TRUE(is_valid_utf8("\xf4\x8f\xbf\xbf"));   // U+10FFFF
  EXPECT_FALSE(is_valid_utf8("\xf4\x90\x80\x80"));  // beyond it
  EXPECT_FALSE(is_valid_utf8("\xed\xa0\x80"));      // a surrogate
  EXPECT_FALSE(is_valid_utf8("\xc0\xaf"));          // longer than needed
  EXPECT_FALSE(is_valid_utf8("\xe2\x82"));          // cut short
}

}  // namespace
}  // namespace dovetail
