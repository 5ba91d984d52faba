#include "webhook/url.h"

#include <gtest/gtest.h>

namespace dovetail::http {
namespace {

Event order(std::string_view key) {
  Event event;
  event.topic = "orders";
  event.aggregate_type = "order";
  event.aggregate_id = key;
  event.type = "placed";
  return event;
}

Result<std::string> filled(std::string_view url, std::string_view key) {
  const auto made = UrlTemplate::parse(url);
  if (!made) return fail(made.error());
  Arena arena;
  std::string out;
  DOVETAIL_TRY(made->fill(order(key), arena, out));
  return out;
}

TEST(Url, WithoutFieldsStaysAsItIs) {
  const auto url = UrlTemplate::parse("https://example.com:8443/a/b?c=d");
  ASSERT_TRUE(url);
  EXPECT_FALSE(url->has_fields());
  EXPECT_TRUE(url->is_https());
  EXPECT_EQ(url->host(), "example.com");
  EXPECT_EQ(url->base(), "https://example.com:8443");
  EXPECT_EQ(filled("https://example.com:8443/a/b?c=d", "17").value(),
            "https://example.com:8443/a/b?c=d");
}

TEST(Url, FieldsOfTheEventAreEncoded) {
  EXPECT_EQ(filled("http://a/{topic}/{aggregate_id}?t={type}", "17").value(),
            "http://a/orders/17?t=placed");
  EXPECT_EQ(filled("http://a/{aggregate_id}", "x/../y?z#&% \xc3\xbc\n").value(),
            "http://a/x%2F..%2Fy%3Fz%23%26%25%20%C3%BC%0A");
}

TEST(Url, AFieldCannotLeadOutOfThePath) {
  for (const char* key : {".", "..", ""}) {
    const auto url = filled("http://a/hooks/{aggregate_id}/x", key);
    ASSERT_FALSE(url) << key;
    EXPECT_EQ(url.error().code, Errc::rejected);
  }
  EXPECT_TRUE(filled("http://a/hooks/v{aggregate_id}", "..")) << "it is only a part of the segment";
  EXPECT_TRUE(filled("http://a/hooks?key={aggregate_id}", "")) << "a query may have an empty value";
}

TEST(Url, AQueryMayHoldAnotherUrlWhateverAFieldGivesToIt) {
  const auto url = UrlTemplate::parse("http://example.com/?to=file://{topic}/x");
  ASSERT_TRUE(url.has_value());
  Arena arena;
  std::string filled;
  ASSERT_TRUE(url->fill(Event{}, arena, filled));
  EXPECT_EQ(filled, "http://example.com/?to=file:///x");
  EXPECT_TRUE(UrlTemplate::parse(filled).has_value());
}

TEST(Url, WhatIsNoUrlOfOursIsRefused) {
  for (const char* url : {"",
                          "example.com",
                          "ftp://example.com/",
                          "file:///etc/passwd",
                          "http://",
                          "https:///path",
                          "http://user@example.com/",
                          "http://user:word@example.com/",
                          "http://a/#part",
                          "http://{topic}/x",
                          "http://a{topic}",
                          "{topic}",
                          "http://a/{nonsense}",
                          "http://a/{topic",
                          "http://a/topic}",
                          "http:/a/b",
                          "http:/a://b/{topic}",
                          "http://a/b c",
                          "http://a/b\r\nX: y",
                          "http://a/../b"}) {
    EXPECT_FALSE(UrlTemplate::parse(url)) << url;
  }
}

}  // namespace
}  // namespace dovetail::http
