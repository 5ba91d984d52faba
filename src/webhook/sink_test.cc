// The sink against a real HTTP server, whose answers follow the url's query.
#include "webhook/sink.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>

#include "host/host.h"
#include "kit/events.h"
#include "server/test_endpoint.h"

namespace dovetail::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class HttpSinkTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = servers::find("http");
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = "/" + std::string(info->name()) + "_" + new_event_id().to_string();
  }

  SinkOptions options(const std::string& query = "") const {
    SinkOptions options;
    options.url = "http://127.0.0.1:" + server_.field("port") + folder_ + query;
    options.allow_private = true;
    return options;
  }
  void open(SinkOptions options) {
    sink_ = std::make_unique<HttpSink>(std::move(options), system_clock());
    const Status opened = sink_->open();
    ASSERT_TRUE(opened) << opened.error().text;
  }
  const Event* event(std::string_view key, std::string_view payload,
                     std::string_view headers = "") {
    return &events_.make("orders", key, payload, headers);
  }
  // The outcomes of the oldest batch, or the error.
  Result<std::vector<Outcome>> collect(std::size_t count) {
    std::vector<Outcome> outcomes(count);
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      const Result<bool> known = sink_->collect(outcomes, milliseconds(50));
      if (!known) return fail(known.error());
      if (*known) return outcomes;
    }
    return fail(Errc::corrupt, "no outcome within the limit");
  }
  Result<Outcome> send(const Event* one) {
    const Status submitted = sink_->submit(std::vector<const Event*>{one});
    if (!submitted) return fail(submitted.error());
    auto outcomes = collect(1);
    if (!outcomes) return fail(outcomes.error());
    return (*outcomes)[0];
  }
  std::vector<Recorded> came() const { return requests_to(server_, folder_); }

  servers::Server server_;
  std::string folder_;
  std::unique_ptr<HttpSink> sink_;
  TestEvents events_;
};

struct Row {
  const char* query;
  Fate fate;
  const char* text;
};

TEST_F(HttpSinkTest, EveryStatusHasItsFate) {
  const Row rows[] = {
      {"status=200", Fate::confirmed, ""},
      {"status=201", Fate::confirmed, ""},
      {"status=202", Fate::confirmed, ""},
      {"status=204", Fate::confirmed, ""},
      {"status=299", Fate::confirmed, ""},
      {"status=301&location=/elsewhere", Fate::failed, "redirects are never followed"},
      {"status=302&location=/elsewhere", Fate::failed, "redirects are never followed"},
      {"status=307&location=/elsewhere", Fate::failed, "redirects are never followed"},
      {"status=308&location=/elsewhere", Fate::failed, "redirects are never followed"},
      {"status=304", Fate::failed, "redirects are never followed"},
      {"status=400", Fate::rejected, "400"},
      {"status=403", Fate::failed, "403"},
      {"status=404", Fate::failed, "check the url"},
      {"status=405", Fate::failed, "check the url"},
      {"status=408", Fate::busy, "not ready"},
      {"status=409", Fate::failed, "conflict"},
      {"status=410", Fate::failed, "gone permanently"},
      {"status=413", Fate::rejected, "too large"},
      {"status=414", Fate::failed, "too large"},
      {"status=415", Fate::failed, "content type"},
      {"status=418", Fate::failed, "418"},
      {"status=422", Fate::rejected, "422"},
      {"status=425", Fate::busy, "not ready"},
      {"status=429", Fate::busy, "not ready"},
      {"status=431", Fate::failed, "too large"},
      {"status=500", Fate::failed, "receiver's log"},
      {"status=501", Fate::failed, "501"},
      {"status=502", Fate::busy, "not ready"},
      {"status=503", Fate::busy, "not ready"},
      {"status=504", Fate::busy, "not ready"},
      {"status=507", Fate::failed, "507"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.query);
    open(options("?" + std::string(row.query)));
    const auto outcome = send(event("k", "{}"));
    ASSERT_TRUE(outcome) << outcome.error().text;
    EXPECT_EQ(outcome->fate, row.fate);
    EXPECT_NE(outcome->reason.find(row.text), std::string::npos) << outcome->reason;
  }
  EXPECT_TRUE(requests_to(server_, "/elsewhere").empty());
}

TEST_F(HttpSinkTest, WrongCredentialsAreAnErrorOfTheConnectionAndCountNoAttempt) {
  for (const char* query : {"?status=401", "?status=407"}) {
    open(options(query));
    const auto outcome = send(event("k", "{}"));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Errc::unavailable);
    EXPECT_NE(outcome.error().text.find("password"), std::string::npos) << outcome.error().text;
  }
}

TEST_F(HttpSinkTest, WhereThePathIsTheEventsOwnARefusedPasswordIsAFailureOfTheEvent) {
  SinkOptions chosen = options();
  chosen.url += "/{aggregate_id}?status=401";
  open(chosen);
  const auto outcome = send(event("k/1", "{}"));
  ASSERT_TRUE(outcome) << outcome.error().text;
  EXPECT_EQ(outcome->fate, Fate::failed);
  ASSERT_EQ(came().size(), 1U);
  EXPECT_EQ(came()[0].path, folder_ + "/k%2F1?status=401");
}

TEST_F(HttpSinkTest, RetryAfterPausesTheWholeEndpointAndNoAttemptIsCounted) {
  open(options("?status=503&retry_after=1&times=1"));
  const auto began = std::chrono::steady_clock::now();
  const Event* one = event("k", "{}");
  const auto refused = send(one);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_NE(refused.error().text.find("1 s, as its Retry-After asks"), std::string::npos)
      << refused.error().text;
  const auto end = began + seconds(30);
  while (!sink_->open() && std::chrono::steady_clock::now() < end)
    system_clock().sleep(milliseconds(20), {});
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(990));
  const auto sent = send(one);
  ASSERT_TRUE(sent) << sent.error().text;
  EXPECT_EQ(sent->fate, Fate::confirmed);
  ASSERT_EQ(came().size(), 2U);
  EXPECT_EQ(came()[0].header("idempotency-key"), came()[1].header("idempotency-key"));
}

TEST_F(HttpSinkTest, ALongRetryAfterIsCut) {
  for (const char* wish : {"99999999", "Fri,%2031%20Dec%202100%2023:59:59%20GMT"}) {
    SinkOptions chosen = options("?status=429&retry_after=" + std::string(wish));
    chosen.retry_after_max = seconds(7);
    open(chosen);
    const auto refused = send(event("k", "{}"));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text.find("7 s, as its Retry-After asks"), std::string::npos)
        << refused.error().text;
  }
}

TEST_F(HttpSinkTest, WhatWasConfirmedBesideAThrottledEventIsNotSentAgain) {
  SinkOptions chosen = options();
  chosen.url += "?status={header.status}&retry_after={header.wait}";
  open(chosen);
  std::vector<const Event*> events;
  for (int i = 0; i < 5; ++i)
    events.push_back(event(std::to_string(i), "{}", R"({"status":"200"})"));
  events.push_back(event("busy", "{}", R"({"status":"429","wait":"30"})"));
  ASSERT_TRUE(sink_->submit(events));
  const auto outcomes = collect(6);
  ASSERT_TRUE(outcomes) << outcomes.error().text;
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ((*outcomes)[i].fate, Fate::confirmed);
  EXPECT_EQ((*outcomes)[5].fate, Fate::busy);
  const auto next = send(event("later", "{}"));
  ASSERT_FALSE(next) << "the endpoint has asked to wait";
  EXPECT_EQ(next.error().code, Errc::unavailable);
}

TEST_F(HttpSinkTest, AnEndpointThatOnlySaysNotNowIsAnOutage) {
  open(options("?status=503"));
  std::vector<const Event*> events;
  for (int i = 0; i < 100; ++i) events.push_back(event(std::to_string(i), "{}"));
  ASSERT_TRUE(sink_->submit(events));
  const auto outcomes = collect(100);
  ASSERT_FALSE(outcomes);
  EXPECT_EQ(outcomes.error().code, Errc::unavailable);
  EXPECT_LT(came().size(), 60U) << "the rest was not even tried";
}

TEST_F(HttpSinkTest, NoAnswerInTimeIsUnknownAndIsSentAgain) {
  SinkOptions chosen = options("?delay=2&times=1");
  chosen.request_timeout = milliseconds(300);
  open(chosen);
  const Event* one = event("k", "{}");
  const auto late = send(one);
  ASSERT_TRUE(late) << late.error().text;
  EXPECT_EQ(late->fate, Fate::again);
  EXPECT_NE(late->reason.find("no answer"), std::string::npos) << late->reason;
  const auto sent = send(one);
  ASSERT_TRUE(sent) << sent.error().text;
  EXPECT_EQ(sent->fate, Fate::confirmed);
}

TEST_F(HttpSinkTest, TheStatusCountsWhateverTheBodyDoes) {
  for (const char* query : {"?bytes=20000000", "?bytes=1000&drip=0.05", "?bytes=1000&early=2"}) {
    SCOPED_TRACE(query);
    open(options(query));
    const auto began = std::chrono::steady_clock::now();
    const auto outcome = send(event("k", "{}"));
    ASSERT_TRUE(outcome) << outcome.error().text;
    EXPECT_EQ(outcome->fate, Fate::confirmed);
    EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(12));
  }
}

TEST_F(HttpSinkTest, AnEarlyCloseAndGarbageAreUnknown) {
  for (const char* query : {"?early=1", "?garbage=1"}) {
    SCOPED_TRACE(query);
    open(options(query));
    const auto outcome = send(event("k", "{}"));
    ASSERT_TRUE(outcome) << outcome.error().text;
    EXPECT_EQ(outcome->fate, Fate::again);
    EXPECT_FALSE(outcome->reason.empty());
  }
}

TEST_F(HttpSinkTest, NobodyAtThePortIsUnavailableAtOpen) {
  SinkOptions chosen = options();
  chosen.url = "http://127.0.0.1:1/";
  HttpSink sink(chosen, system_clock());
  const Status opened = sink.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unavailable);
  EXPECT_NE(opened.error().text.find("127.0.0.1:1"), std::string::npos) << opened.error().text;
}

TEST_F(HttpSinkTest, AddressesThatAreNotPublicAreNotConnectedTo) {
  const std::string port = server_.field("port");
  // address_test.cc tests other ranges: nothing leaves the machine here.
  for (const char* host : {"127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001",
                           "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"}) {
    SCOPED_TRACE(host);
    SinkOptions chosen;
    chosen.url = "http://" + std::string(host) + ":" + port + folder_;
    chosen.connect_timeout = seconds(2);
    HttpSink sink(chosen, system_clock());
    const Status opened = sink.open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::unavailable);
    EXPECT_NE(opened.error().text.find("allow_private"), std::string::npos) << opened.error().text;
  }
  EXPECT_TRUE(came().empty());
}

TEST_F(HttpSinkTest, AProxyOfTheEnvironmentIsNotUsed) {
  setenv("http_proxy", "http://127.0.0.1:1/", 1);
  setenv("ALL_PROXY", "http://127.0.0.1:1/", 1);
  open(options());
  const auto outcome = send(event("k", "{}"));
  unsetenv("http_proxy");
  unsetenv("ALL_PROXY");
  ASSERT_TRUE(outcome) << outcome.error().text;
  EXPECT_EQ(outcome->fate, Fate::confirmed);
}

TEST_F(HttpSinkTest, TheLimitOfThePayloadIsExact) {
  SinkOptions chosen = options();
  chosen.payload_bytes_max = 1000;
  open(chosen);
  const std::string body(1001, 'x');
  const Fate fates[] = {Fate::confirmed, Fate::confirmed, Fate::rejected};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto outcome = send(event("k" + std::to_string(i), body.substr(0, 999 + i)));
    ASSERT_TRUE(outcome) << outcome.error().text;
    EXPECT_EQ(outcome->fate, fates[i]) << outcome->reason;
  }
  EXPECT_EQ(came().size(), 2U);
}

TEST_F(HttpSinkTest, WhatHttpCannotCarryIsRefusedBeforeItIsSent) {
  open(options());
  for (const char* headers :
       {R"({"x":"line\nbreak"})", R"({"x":"cr\rlf"})", R"({"x":"nul\u0000"})", R"({"x":" blank"})",
        R"({"x":"blank "})", R"({"transfer-encoding":"chunked"})", R"({"Content-Length":"3"})",
        R"({"Host":"elsewhere"})", R"({"authorization":"x"})", R"({"webhook-signature":"v1,x"})",
        R"({"Idempotency-Key":"x"})", R"({"ce-id":"x"})", R"({"a b":"x"})"}) {
    SCOPED_TRACE(headers);
    const auto outcome = send(event("", "{}", headers));
    ASSERT_TRUE(outcome) << outcome.error().text;
    EXPECT_EQ(outcome->fate, Fate::rejected);
    EXPECT_FALSE(outcome->reason.empty());
  }
  EXPECT_TRUE(came().empty());
}

TEST_F(HttpSinkTest, AwkwardHeadersArriveAsTheyAre) {
  open(options());
  const auto outcome =
      send(event("gr\xc3\xbc\xc3\x9f %/\n\"", "{}",
                 R"({"empty":"","tab":"a\tb","utf8":"grüß","marks":"<>\"'\\;:,%20"})"));
  ASSERT_TRUE(outcome) << outcome.error().text;
  EXPECT_EQ(outcome->fate, Fate::confirmed) << outcome->reason;
  ASSERT_EQ(came().size(), 1U);
  EXPECT_EQ(came()[0].header("tab"), "a\tb");
  EXPECT_EQ(came()[0].header("utf8"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(came()[0].header("marks"), "<>\"'\\;:,%20");
  EXPECT_EQ(came()[0].header("ce-subject"), "gr%C3%BC%C3%9F%20%25/%0A%22");
}

TEST_F(HttpSinkTest, TokenAndPasswordAreSentAndNeverTold) {
  SinkOptions chosen = options();
  chosen.password = "token-canary";
  open(chosen);
  ASSERT_TRUE(send(event("k", "{}")));
  chosen.user = "me";
  open(chosen);
  ASSERT_TRUE(send(event("k", "{}")));
  ASSERT_EQ(came().size(), 2U);
  EXPECT_EQ(came()[0].header("authorization"), "Bearer token-canary");
  EXPECT_EQ(base64_decoded(came()[1].header("authorization").substr(6)), "me:token-canary");
  chosen.url += "?status=401";
  open(chosen);
  const auto refused = send(event("k", "{}"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text.find("canary"), std::string::npos);
}

TEST_F(HttpSinkTest, WrongOptionsAreRefusedAtOpen) {
  std::vector<SinkOptions> wrong(5, options());
  wrong[0].url = "ftp://example.com/";
  wrong[1].secrets = "whsec_short";
  wrong[2].message.headers = {{"content-length", "1"}};
  wrong[3].password = "line\nbreak";
  wrong[4].requests_in_flight_max = 0;
  for (const SinkOptions& one : wrong) {
    HttpSink sink(one, system_clock());
    const Status opened = sink.open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::rejected) << opened.error().text;
  }
}

TEST_F(HttpSinkTest, ConnectionsAreUsedAgain) {
  SinkOptions chosen = options();
  chosen.requests_in_flight_max = 4;
  open(chosen);
  for (int round = 0; round < 10; ++round) {
    std::vector<const Event*> events;
    for (int i = 0; i < 20; ++i) events.push_back(event(std::to_string(i), "{}"));
    ASSERT_TRUE(sink_->submit(events));
    ASSERT_TRUE(collect(20));
  }
  std::set<std::string> ports;
  for (const Recorded& one : came()) ports.insert(one.peer);
  EXPECT_EQ(came().size(), 200U);
  EXPECT_LE(ports.size(), 4U);
}

}  // namespace
}  // namespace dovetail::http
