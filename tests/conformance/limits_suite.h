// What every sink must do with difficult events: each arrives byte for byte, or is rejected
// with the reason; none is changed silently. Instantiated with the cases of the sink suite:
//
//   INSTANTIATE_TEST_SUITE_P(Redis, LimitsSuite, testing::Values(SinkCase{"streams",
//   make_it}),
//   case_name<SinkCase>);
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance/cases.h"
#include "conformance/sink_suite.h"
#include "dovetail/event.h"
#include "kit/ids.h"

namespace dovetail::conformance {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A text, and its name in failures.
struct Awkward {
  std::string name;
  std::string text;
};

// Allowed in a key, a type, or a header value.
inline std::vector<Awkward> awkward_texts() {
  return {
      {"quotes", R"(say "yes" and 'no')"},
      {"a backslash", R"(C:\new\table)"},
      {"only a backslash", "\\"},
      {"UTF-8", "gr\xc3\xbc\xc3\x9f\xe2\x82\xac \xf0\x9f\x98\x80"},
      {"percent", "100%"},
      {"percent that looks encoded", "a%20b%0d%0ac"},
      {"equals, semicolon, comma", "a=b;c=d,e=f"},
      {"spaces at both ends", "  inside  "},
      {"only a space", " "},
      {"a tab", "a\tb"},
      {"a tab at the end", "ab\t"},
      {"braces", "{aggregate_id} {{}} }{"},
      {"dots, stars and angles", "a.b.*.>.#"},
      {"slashes", "/a//b/../c?d#e"},
      {"a colon", "a: b"},
      {"brackets", "[a](b)<c>"},
      {"a dollar", "$JS.API.$"},
      {"SQL", "'; DROP TABLE orders; --"},
      {"hexadecimal", "0x6162"},
      {"a number", "00042"},
      {"a UUID", "018f2b1e-7b0a-7000-8000-000000000001"},
      {"JSON", R"({"a":["b",null]})"},
      {"null", "null"},
      {"long", std::string(1000, 'k')},
  };
}

// Allowed in a key, but not in a header.
inline std::vector<Awkward> awkward_controls() {
  return {
      {"a line break", "a\nb"},
      {"a header of its own", "a\r\nInjected: yes\r\n\r\nbody"},
      {"control characters", "a\x01\x1f\x7f"},
      {"a line break at the end", "a\n"},
  };
}

class LimitsSuite : public testing::TestWithParam<SinkCase> {
 protected:
  void SetUp() override {
    store_ = GetParam().make();
    sink_ = store_->make();
    const Status opened = sink_->open();
    ASSERT_TRUE(opened) << opened.error().text;
  }

  Event plain(const std::string& key, std::string_view payload) {
    Event one;
    one.id = numbered_id(++made_);
    one.position = static_cast<std::int64_t>(made_);
    one.topic = "orders";
    one.aggregate_type = "order";
    // One refused event must not hold up the others: short keys get a number of equal length.
    const bool is_numbered = !key.empty() && key.size() < 40;
    one.aggregate_id =
        keep(is_numbered ? key + " " + std::to_string(1000 + static_cast<int>(made_)) : key);
    one.type = "changed";
    one.content_type = "application/json";
    one.payload = payload;
    one.created_at = WallTime(seconds(1'700'000'000));
    return one;
  }
  void add(std::string name, const Event& event) {
    names_.push_back(std::move(name));
    sent_.push_back(&batches_.emplace_back().append(event));
  }
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }
  std::string_view headers(const std::vector<Header>& headers) {
    const Result<std::string> encoded = encode_headers(headers);
    EXPECT_TRUE(encoded) << encoded.error().text;
    return keep(*encoded);
  }

  // Sends the added events in one batch, between two harmless ones.
  void send() {
    sent_.insert(sent_.begin(), &batches_.emplace_back().append(plain("before", "1")));
    names_.insert(names_.begin(), "the one before");
    add("the one behind", plain("behind", "2"));
    const Status submitted = sink_->submit(sent_);
    ASSERT_TRUE(submitted) << submitted.error().text;
    outcomes_.assign(sent_.size(), {});
    const auto end = std::chrono::steady_clock::now() + seconds(60);
    bool known = false;
    while (!known && std::chrono::steady_clock::now() < end) {
      const Result<bool> some = sink_->collect(outcomes_, milliseconds(100));
      ASSERT_TRUE(some) << some.error().text;
      known = *some;
    }
    ASSERT_TRUE(known) << "no outcome within the limit";
    EXPECT_EQ(outcomes_.front().fate, Fate::confirmed) << outcomes_.front().reason;
    EXPECT_EQ(outcomes_.back().fate, Fate::confirmed) << outcomes_.back().reason;
    for (StoredEvent& event : store_->stored()) stored_.insert_or_assign(event.id, event);
  }

  // Each has arrived unchanged, or was rejected and has not arrived.
  void check_all() {
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      SCOPED_TRACE(names_[i]);
      const Outcome& outcome = outcomes_[i];
      const auto found = stored_.find(sent_[i]->id);
      if (outcome.fate == Fate::confirmed) {
        ASSERT_NE(found, stored_.end()) << "it was confirmed and is not there";
        expect_same(found->second, *sent_[i]);
        continue;
      }
      EXPECT_EQ(outcome.fate, Fate::rejected);
      EXPECT_GT(outcome.reason.size(), 10U) << "a reason says what is wrong";
      EXPECT_EQ(found, stored_.end()) << "it was refused and is there";
      std::printf("refused: %s: %s\n", names_[i].c_str(), outcome.reason.c_str());
    }
  }
  static void expect_same(const StoredEvent& stored, const Event& sent) {
    EXPECT_TRUE(stored.payload == sent.payload)
        << stored.payload.size() << " bytes came of " << sent.payload.size();
    EXPECT_EQ(stored.aggregate_id, sent.aggregate_id);
    EXPECT_EQ(stored.aggregate_type, sent.aggregate_type);
    EXPECT_EQ(stored.type, sent.type);
    EXPECT_EQ(stored.content_type, sent.content_type);
    const auto came = decode_headers(stored.headers);
    const auto went = decode_headers(sent.headers);
    ASSERT_TRUE(came && went);
    EXPECT_EQ(by_name(*came), by_name(*went));
  }
  // Some brokers do not keep the order of headers.
  static std::map<std::string, std::string> by_name(const std::vector<Header>& headers) {
    std::map<std::string, std::string> sorted;
    for (const Header& header : headers) sorted[header.name] = header.value;
    return sorted;
  }

  std::unique_ptr<SinkUnderTest> store_;
  std::unique_ptr<Sink> sink_;
  std::deque<Batch> batches_;
  std::deque<std::string> texts_;
  std::vector<const Event*> sent_;
  std::vector<std::string> names_;
  std::vector<Outcome> outcomes_;
  std::map<EventId, StoredEvent> stored_;
  std::uint64_t made_ = 0;
};

TEST_P(LimitsSuite, ThePayloadMayBeAsLargeAsTheLimitAndNotLarger) {
  const std::size_t limit = store_->payload_bytes_max(plain("size", "x"));
  if (limit == 0) GTEST_SKIP() << "there is no limit that a test could reach";
  for (const std::size_t size : {limit - 1, limit, limit + 1}) {
    std::string payload(size, '\0');
    for (std::size_t i = 0; i < size; ++i) payload[i] = static_cast<char>(i * 31 % 251);
    add(std::to_string(size) + " bytes", plain("size", keep(std::move(payload))));
  }
  send();
  if (HasFatalFailure()) return;
  EXPECT_EQ(outcomes_[1].fate, Fate::confirmed) << outcomes_[1].reason;
  EXPECT_EQ(outcomes_[2].fate, Fate::confirmed) << outcomes_[2].reason;
  EXPECT_EQ(outcomes_[3].fate, Fate::rejected) << "one byte more than the limit";
  check_all();
}

// The largest size that EventLimits allow, with all the text that a broker may encode in a longer
// form.
TEST_P(LimitsSuite, TheLargestEventThatMayBePublishedArrives) {
  const EventLimits limits;
  const std::size_t own_limit = store_->payload_bytes_max(plain("size", "x"));
  if (own_limit > 0 && own_limit < limits.payload_bytes_max)
    GTEST_SKIP() << "the test has set a lower limit";
  const auto umlauts = [](std::size_t bytes) {
    std::string text;
    while (text.size() + 2 <= bytes) text += "\xc3\xbc";
    return text;
  };
  Event event =
      plain(umlauts(limits.key_bytes_max), keep(std::string(limits.payload_bytes_max, 'x')));
  event.type = keep(umlauts(limits.name_bytes_max));
  event.aggregate_type = keep(umlauts(limits.name_bytes_max));
  event.content_type = keep("text/plain; x=" + std::string(limits.name_bytes_max - 14, 'x'));
  event.headers = headers({{"a", std::string(limits.headers_bytes_max / 2 - 20, 'x')},
                           {"b", std::string(limits.headers_bytes_max / 2 - 20, 'x')}});
  add("the largest", event);
  send();
  if (HasFatalFailure()) return;
  EXPECT_EQ(outcomes_[1].fate, Fate::confirmed) << outcomes_[1].reason;
  check_all();
}

TEST_P(LimitsSuite, AwkwardKeysArriveOrAreRefused) {
  for (const Awkward& one : awkward_texts()) add(one.name, plain(one.text, "{}"));
  for (const Awkward& one : awkward_controls()) add(one.name, plain(one.text, "{}"));
  add("no key", plain("", "{}"));
  add("the longest key", plain(std::string(1024, 'k'), "{}"));
  std::string two_bytes_each;
  while (two_bytes_each.size() < 1024) two_bytes_each += "\xc3\xbc";
  add("the longest key, not ASCII", plain(two_bytes_each, "{}"));
  send();
  if (!HasFatalFailure()) check_all();
}

TEST_P(LimitsSuite, AwkwardTypesArriveOrAreRefused) {
  for (const Awkward& one : awkward_texts()) {
    Event event = plain("type", "{}");
    event.type = keep(one.text.substr(0, 255));
    add("type: " + one.name, event);
    event = plain("aggregate type", "{}");
    event.aggregate_type = event.type = keep(one.text.substr(0, 255));
    add("aggregate type: " + one.name, event);
  }
  for (const Awkward& one : awkward_controls()) {
    Event event = plain("type", "{}");
    event.type = keep(one.text);
    add("type: " + one.name, event);
  }
  send();
  if (!HasFatalFailure()) check_all();
}

TEST_P(LimitsSuite, AwkwardContentTypesArriveOrAreRefused) {
  for (const char* type : {"text/plain; charset=\"utf-8\"", "application/vnd.a+json;v=1", "x",
                           " padded ", "a\r\nInjected: yes", "gr\xc3\xbc\xc3\x9f"}) {
    Event event = plain("content type", "{}");
    event.content_type = keep(type);
    add(type, event);
  }
  send();
  if (!HasFatalFailure()) check_all();
}

TEST_P(LimitsSuite, AwkwardHeadersArriveOrAreRefused) {
  const auto with = [&](const std::string& name, const std::vector<Header>& some) {
    Event event = plain("header", "{}");
    event.headers = headers(some);
    add(name, event);
  };
  for (const Awkward& one : awkward_texts()) with(one.name, {{"own", one.text}});
  with("an empty value", {{"own", ""}});
  with("8 KB", {{"own", std::string(8 << 10, 'v')}});
  with("a name with every sign", {{"A-b_c.9", "v"}});
  with("a long name", {{std::string(255, 'n'), "v"}});
  with("several", {{"a", "1"}, {"b", ""}, {"c", " 3 "}});
  with("a name that begins with a digit", {{"9lives", "v"}});
  std::vector<Header> many;
  for (int i = 0; i < 100; ++i) many.push_back({"h" + std::to_string(i), std::to_string(i)});
  with("a hundred", many);
  send();
  if (!HasFatalFailure()) check_all();
}

// These names have a meaning in some binding. A sender must not be able to pass for another
// one.
TEST_P(LimitsSuite, HeadersWithNamesOfTheFormatArriveOrAreRefused) {
  for (const char* name :
       {"id", "ce_id", "ce-id", "ce_type", "content-type", "Content-Type", "content-length", "Host",
        "Nats-Msg-Id", "Nats-Expected-Stream", "key", "data", "traceparent", "Idempotency-Key",
        "webhook-id", "webhook-signature", "Transfer-Encoding", "Message-Key", "x-match"}) {
    Event event = plain("header", "{}");
    event.headers = headers({{name, "mine"}});
    add(name, event);
  }
  send();
  if (!HasFatalFailure()) check_all();
}

TEST_P(LimitsSuite, AwkwardPayloadsArriveOrAreRefused) {
  std::string every(256, '\0');
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<char>(i);
  for (const Awkward& one : {Awkward{"every byte", every}, Awkward{"no byte", ""},
                             Awkward{"a zero", std::string(1, '\0')}, Awkward{"a line", "\r\n"},
                             Awkward{"zeros", std::string(100'000, '\0')},
                             Awkward{"like a protocol", "\r\n+OK\r\n.\r\nPUB x 1\r\n"}}) {
    add(one.name, plain("payload", keep(one.text)));
  }
  send();
  if (!HasFatalFailure()) check_all();
}

}  // namespace dovetail::conformance
