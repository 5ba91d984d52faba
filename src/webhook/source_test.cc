// The endpoint, as senders see it. The sender here is libcurl; others are in tests/cli.
#include "webhook/source.h"

#include <curl/curl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <thread>

#include "host/host.h"
#include "memory/stored_event.h"
#include "servers/servers.h"

namespace dovetail::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Response {
  long status = 0;  // 0: no answer
  std::string headers{};
  std::string body{};

  bool has(std::string_view text) const {
    return headers.find(text) != std::string::npos || body.find(text) != std::string::npos;
  }
};

std::size_t append(char* bytes, std::size_t, std::size_t count, void* out) {
  static_cast<std::string*>(out)->append(bytes, count);
  return count;
}

struct Shipment {
  std::string path = "/events";
  std::vector<std::string> headers{};
  std::string body = "{}";
  std::string method = "POST";
  std::string ca_file{};
  bool chunked = false;
};

struct Upload {
  std::string_view rest;
  static std::size_t read(char* to, std::size_t, std::size_t count, void* data) {
    std::string_view& rest = static_cast<Upload*>(data)->rest;
    const std::size_t length = std::min(count, rest.size());
    std::copy_n(rest.data(), length, to);
    rest.remove_prefix(length);
    return length;
  }
};

Response ship(std::uint16_t port, const Shipment& one) {
  CURL* const easy = curl_easy_init();
  Response response;
  curl_slist* lines = nullptr;
  for (const std::string& header : one.headers) lines = curl_slist_append(lines, header.c_str());
  lines = curl_slist_append(lines, "Expect:");
  const std::string scheme = one.ca_file.empty() ? "http" : "https";
  const std::string url = scheme + "://127.0.0.1:" + std::to_string(port) + one.path;
  Upload upload{one.body};
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  if (one.chunked) {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, &Upload::read);
    curl_easy_setopt(easy, CURLOPT_READDATA, &upload);
    lines = curl_slist_append(lines, "Transfer-Encoding: chunked");
  } else {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(one.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, one.body.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, one.method.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &append);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &response.body);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &append);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &response.headers);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT, 60L);
  if (!one.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, one.ca_file.c_str());
  curl_easy_perform(easy);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &response.status);
  curl_slist_free_all(lines);
  curl_easy_cleanup(easy);
  return response;
}

constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

class HttpSourceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { curl_global_init(CURL_GLOBAL_DEFAULT); }

  void open(SourceOptions options = {}) {
    source_ = std::make_unique<HttpSource>(std::move(options), system_clock());
    const Status opened = source_->open();
    ASSERT_TRUE(opened) << opened.error().text;
  }
  Response ship_now(const Shipment& one) { return ship(source_->port(), one); }
  std::future<Response> ship_later(const Shipment& one) {
    return std::async(std::launch::async,
                      [port = source_->port(), one] { return ship(port, one); });
  }
  static Shipment with_id(const std::string& id, std::string body = "{}") {
    return {.headers = {"Idempotency-Key: " + id}, .body = std::move(body)};
  }
  bool wait_for_taken(std::uint64_t count) {
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (source_->taken() < count && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(milliseconds(1));
    return source_->taken() >= count;
  }
  std::unique_ptr<Batch> read(std::size_t count) {
    auto batch = std::make_unique<Batch>();
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (batch->size() < count && std::chrono::steady_clock::now() < end)
      EXPECT_TRUE(
          source_->read(*batch, Limits{count - batch->size(), 4 << 20, milliseconds(50)}, {}));
    EXPECT_EQ(batch->size(), count);
    return batch;
  }
  void settle(const Batch& batch, Settled fate = Settled::delivered) {
    ASSERT_TRUE(source_->settle(batch, std::vector<Settled>(batch.size(), fate)));
    ASSERT_TRUE(source_->flush());
  }
  // Reads events until the answer is there.
  Response through(const Shipment& one) {
    auto response = ship_later(one);
    settle(*read(1));
    return response.get();
  }

  std::unique_ptr<HttpSource> source_;
};

TEST_F(HttpSourceTest, TheAnswerComesWhenTheEventIsSettledAndNotBefore) {
  open();
  auto response = ship_later(with_id("a-1"));
  const auto batch = read(1);
  EXPECT_EQ(response.wait_for(milliseconds(100)), std::future_status::timeout);
  settle(*batch);
  EXPECT_EQ(response.get().status, 202);
}

TEST_F(HttpSourceTest, PositionsAreGreaterThanThoseOfAClockThatWasAhead) {
  const std::int64_t parked =
      (system_clock().wall() + std::chrono::hours(48)).time_since_epoch().count();
  source_ = std::make_unique<HttpSource>(SourceOptions{}, system_clock());
  source_->begin_after(parked);
  ASSERT_TRUE(source_->open());
  std::int64_t last = parked;
  for (const char* id : {"1", "2"}) {
    auto response = ship_later(with_id(id));
    const auto batch = read(1);
    ASSERT_EQ(batch->size(), 1U);
    EXPECT_GT(batch->events()[0].position, last);
    last = batch->events()[0].position;
    settle(*batch);
    response.get();
  }
}

TEST_F(HttpSourceTest, WhatIsParkedIsOursAndAnsweredSo) {
  open();
  auto response = ship_later(with_id("a-1"));
  settle(*read(1), Settled::parked);
  EXPECT_EQ(response.get().status, 202);
}

TEST_F(HttpSourceTest, WhatWaitsAtTheEndIsToldToComeBack) {
  open();
  auto read_one = ship_later(with_id("a-1"));
  read(1);
  auto unread = ship_later(with_id("a-2"));
  ASSERT_TRUE(wait_for_taken(2));
  source_.reset();
  for (auto* one : {&read_one, &unread}) {
    const Response response = one->get();
    EXPECT_EQ(response.status, 503);
    EXPECT_TRUE(response.has("Retry-After: 1")) << response.headers;
  }
}

TEST_F(HttpSourceTest, TheSameIdTwiceAtOnceWaitsForOneFate) {
  open();
  auto first = ship_later(with_id("a-1"));
  const auto batch = read(1);
  auto second = ship_later(with_id("a-1"));
  ASSERT_TRUE(wait_for_taken(2));
  Batch none;
  ASSERT_TRUE(source_->read(none, Limits{10, 1 << 20, milliseconds(20)}, {}));
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(second.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(ship_now(with_id("a-1", "{\"other\":1}")).status, 422);
  settle(*batch);
  EXPECT_EQ(first.get().status, 202);
  EXPECT_EQ(second.get().status, 202);
}

TEST_F(HttpSourceTest, ARepeatedRequestBecomesTheSameEvent) {
  open();
  std::vector<EventId> ids;
  for (int i = 0; i < 2; ++i) {
    auto response = ship_later(with_id("order-17"));
    const auto batch = read(1);
    ids.push_back(batch->events()[0].id);
    settle(*batch);
    EXPECT_EQ(response.get().status, 202);
  }
  EXPECT_EQ(ids[0], ids[1]);
}

TEST_F(HttpSourceTest, WhatSendersDoWrongTheyAreTold) {
  SourceOptions options;
  options.payload_bytes_max = 1000;
  open(options);
  struct Row {
    Shipment shipment;
    long status;
    const char* text;
  };
  Shipment long_one = with_id("x", std::string(1001, 'x'));
  Shipment long_chunks = long_one;
  long_chunks.chunked = true;
  const Row rows[] = {
      {{.method = "GET"}, 405, "Allow: POST"},
      {{.method = "PUT"}, 405, "Allow: POST"},
      {{.path = "/elsewhere"}, 404, "/events"},
      {{.path = "/eventsx"}, 404, "/events"},
      {{.path = "/events/a/b"}, 404, "/events"},
      {{.path = "/events/%zz"}, 404, "/events"},
      {{}, 400, "no id"},
      {with_id("x", ""), 400, "empty"},
      {long_one, 413, "1000"},
      {long_chunks, 413, "1000"},
      {{.headers = {"Content-Type: application/cloudevents+json"}}, 415, "binary mode"},
      {{.headers = {"Content-Type: application/cloudevents-batch+json"}}, 415, "binary mode"},
      {{.headers = {"Content-Encoding: gzip", "Idempotency-Key: x"}}, 415, "Content-Encoding"},
      {{.headers = {"ce-id: x", "ce-type: %FF%FE"}}, 400, "UTF-8"},
      {{.headers = {"ce-id: x", "ce-type: " + std::string(300, 't')}}, 400, "type"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.shipment.method + " " + row.shipment.path + " " + row.text);
    const Response response = ship_now(row.shipment);
    EXPECT_EQ(response.status, row.status) << response.body;
    EXPECT_TRUE(response.has(row.text)) << response.headers << response.body;
  }
  EXPECT_EQ(source_->taken(), 0U);
  EXPECT_EQ(through(with_id("x", std::string(1000, 'x'))).status, 202) << "the limit itself";
}

TEST_F(HttpSourceTest, ATooLongHeaderIsRefused) {
  open();
  EXPECT_EQ(ship_now({.headers = {"Idempotency-Key: x", "X: " + std::string(100'000, 'x')}}).status,
            431);
}

TEST_F(HttpSourceTest, ForeignPostsBecomeEvents) {
  SourceOptions options;
  options.foreign.id = "X-Delivery";
  options.foreign.type = "X-Event";
  options.foreign.aggregate_id = "X-Order";
  open(options);
  auto response =
      ship_later({.path = "/events/shop%2Forders?x=y",
                  .headers = {"X-Delivery: 0190163D-8694-739B-AEA5-966C26F8AD91", "X-Event: placed",
                              "X-Order: 17", "X-More: m", "Content-Type: text/plain"},
                  .body = "hello"});
  const auto batch = read(1);
  const Event& event = batch->events()[0];
  EXPECT_EQ(event.id.to_string(), "0190163d-8694-739b-aea5-966c26f8ad91");
  EXPECT_EQ(event.type, "placed");
  EXPECT_EQ(event.aggregate_id, "17");
  EXPECT_EQ(event.topic, "shop/orders");
  EXPECT_EQ(event.content_type, "text/plain");
  EXPECT_EQ(event.payload, "hello");
  EXPECT_EQ(event.headers, R"({"x-more":"m"})") << "what HTTP needs for itself is left out";
  settle(*batch);
  EXPECT_EQ(response.get().status, 202);
}

TEST_F(HttpSourceTest, ATokenIsAskedFor) {
  SourceOptions options;
  options.token = "canary";
  open(options);
  Shipment without = with_id("x");
  Shipment wrong = without;
  wrong.headers.emplace_back("Authorization: Bearer canarx");
  Shipment right = without;
  right.headers.emplace_back("Authorization: Bearer canary");
  for (Shipment* one : {&without, &wrong}) {
    const Response response = ship_now(*one);
    EXPECT_EQ(response.status, 401);
    EXPECT_TRUE(response.has("WWW-Authenticate: Bearer"));
    EXPECT_FALSE(response.has("canary"));
  }
  EXPECT_EQ(through(right).status, 202);
}

Shipment signed_shipment(const std::string& id, std::int64_t age_s, const char* secret = kSecret) {
  const auto now =
      std::chrono::duration_cast<seconds>(system_clock().wall().time_since_epoch()).count();
  const std::string timestamp = std::to_string(now - age_s);
  Shipment one;
  one.body = "{\"signed\":1}";
  one.headers = {"webhook-id: " + id, "webhook-timestamp: " + timestamp,
                 "webhook-signature: v1,bm9wZQ== " +
                     WebhookSecrets::parse(secret)->sign(id, timestamp, one.body)};
  return one;
}

TEST_F(HttpSourceTest, ASignatureIsVerified) {
  SourceOptions options;
  options.secrets = kSecret;
  open(options);
  EXPECT_EQ(through(signed_shipment("msg_1", 0)).status, 202);
  EXPECT_EQ(through(signed_shipment("msg_2", 240)).status, 202);
  const std::string other = "whsec_" + to_base64(std::string(32, 'o'));
  Shipment changed = signed_shipment("msg_3", 0);
  changed.body += " ";
  Shipment renamed = signed_shipment("msg_3", 0);
  renamed.headers[0] = "webhook-id: msg_4";
  for (const Shipment& one :
       {with_id("x"), signed_shipment("msg_3", 400), signed_shipment("msg_3", -400), changed,
        renamed, signed_shipment("msg_3", 0, other.c_str())}) {
    const Response response = ship_now(one);
    EXPECT_EQ(response.status, 401) << response.body;
  }
  Shipment two_ids = signed_shipment("msg_3", 0);
  two_ids.headers.emplace_back("ce-id: msg_5");
  EXPECT_EQ(ship_now(two_ids).status, 400) << "only the signed id may be the event's";
}

TEST_F(HttpSourceTest, OneSignatureIsOneEventWhateverUnsignedPartChanges) {
  SourceOptions options;
  options.secrets = kSecret;
  open(options);
  // An id with a percent sign would be decoded as a CloudEvents attribute.
  for (const std::string id : {"msg_1", "msg%5f1", "0190163D-8694-739B-AEA5-966C26F8AD91"}) {
    const Shipment captured = signed_shipment(id, 0);
    auto first = ship_later(captured);
    const auto batch = read(1);
    const EventId event_id = batch->events()[0].id;
    settle(*batch);
    EXPECT_EQ(first.get().status, 202);
    const auto changed = [&](const std::string& header) {
      Shipment again = captured;
      again.headers.push_back(header);
      return again;
    };
    for (const Shipment& again :
         {changed("ce-source: elsewhere"), changed("ce-id: " + id), changed("id: other"),
          changed("ce-time: 2020-01-01T00:00:00Z"), changed("Idempotency-Key: other")}) {
      SCOPED_TRACE(again.headers.back());
      auto response = ship_later(again);
      const auto read_again = read(1);
      ASSERT_EQ(read_again->size(), 1U);
      EXPECT_EQ(read_again->events()[0].id, event_id);
      settle(*read_again);
      EXPECT_EQ(response.get().status, 202);
    }
    Shipment elsewhere = captured;
    elsewhere.path = "/events/other";
    for (const Shipment& again :
         {changed("ce-type: other"), changed("ce-subject: 17"), changed("ce-aggregatetype: other"),
          changed("Content-Type: text/x-other"), changed("ce-aggregateversion: 2"), elsewhere}) {
      SCOPED_TRACE(again.headers.back());
      EXPECT_EQ(ship_now(again).status, 422) << "what came first stands";
    }
  }
}

TEST_F(HttpSourceTest, EndpointsAtDifferentPathsKeepTheirSendersApart) {
  std::vector<EventId> ids;
  for (const char* path : {"/events", "/others"}) {
    SourceOptions options;
    options.secrets = kSecret;
    options.path = path;
    open(options);
    Shipment one = signed_shipment("msg_1", 0);
    one.path = path;
    auto response = ship_later(one);
    const auto batch = read(1);
    ids.push_back(batch->events()[0].id);
    settle(*batch);
    EXPECT_EQ(response.get().status, 202);
  }
  EXPECT_NE(ids[0], ids[1]);
}

TEST(SignedForms, ForgetsWhatIsOldAndWhatIsTooMuch) {
  SignedForms forms(seconds(10), 3);
  Event event;
  const TimePoint start{};
  for (std::uint8_t i = 1; i <= 5; ++i) {
    event.id.bytes[15] = i;
    EXPECT_TRUE(forms.agrees(event, start));
    EXPECT_LE(forms.size(), 3U);
  }
  event.type = "other";
  EXPECT_FALSE(forms.agrees(event, start + seconds(10)));
  EXPECT_TRUE(forms.agrees(event, start + seconds(11))) << "its signature is not valid any more";
  EXPECT_EQ(forms.size(), 1U);
}

TEST_F(HttpSourceTest, BeyondItsLimitsSendersAreToldToComeBack) {
  SourceOptions options;
  options.waiting_max = 3;
  open(options);
  std::vector<std::future<Response>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(ship_later(with_id(std::to_string(i))));
  ASSERT_TRUE(wait_for_taken(3));
  const Response refused = ship_now(with_id("3"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.has("Retry-After: 1"));
  settle(*read(3));
  for (auto& one : waiting) EXPECT_EQ(one.get().status, 202);
  EXPECT_EQ(through(with_id("3")).status, 202);
}

TEST_F(HttpSourceTest, BeyondItsBytesSendersAreToldToComeBack) {
  SourceOptions options;
  options.waiting_bytes_max = 300'000;
  open(options);
  auto first = ship_later(with_id("1", std::string(200'000, 'x')));
  ASSERT_TRUE(wait_for_taken(1));
  EXPECT_EQ(ship_now(with_id("2", std::string(200'000, 'x'))).status, 503);
  Shipment chunks = with_id("2", std::string(200'000, 'x'));
  chunks.chunked = true;
  EXPECT_EQ(ship_now(chunks).status, 503);
  settle(*read(1));
  EXPECT_EQ(first.get().status, 202);
}

TEST_F(HttpSourceTest, NobodyWaitsForEver) {
  SourceOptions options;
  options.answer_timeout = milliseconds(100);
  open(options);
  auto response = ship_later(with_id("1"));
  const auto batch = read(1);
  // The next reader removes those that wait too long.
  const auto end = std::chrono::steady_clock::now() + seconds(30);
  while (response.wait_for(milliseconds(10)) != std::future_status::ready &&
         std::chrono::steady_clock::now() < end) {
    Batch none;
    ASSERT_TRUE(source_->read(none, Limits{}, {}));
  }
  EXPECT_EQ(response.get().status, 503);
  auto again = ship_later(with_id("1"));
  ASSERT_TRUE(wait_for_taken(2));
  settle(*batch);
  EXPECT_EQ(again.get().status, 202) << "it joins what is being processed";
}

TEST_F(HttpSourceTest, WhatNobodyReadAndNobodyWaitsForIsForgotten) {
  SourceOptions options;
  options.answer_timeout = milliseconds(50);
  open(options);
  auto response = ship_later(with_id("1"));
  ASSERT_TRUE(wait_for_taken(1));
  std::this_thread::sleep_for(milliseconds(60));
  Batch batch;
  ASSERT_TRUE(source_->read(batch, Limits{}, {}));
  EXPECT_TRUE(batch.empty()) << "its sender was told to send it again";
  EXPECT_EQ(response.get().status, 503);
}

TEST_F(HttpSourceTest, WrongOptionsAreRefusedAtOpen) {
  std::vector<SourceOptions> wrong(6);
  wrong[0].address = "0.0.0.0";
  wrong[1].address = "::";
  wrong[2].path = "events";
  wrong[3].secrets = "whsec_x";
  wrong[4].cert_file = "/nowhere.pem";
  wrong[5].secrets = kSecret;
  wrong[5].foreign.id = "x-id";
  for (const SourceOptions& one : wrong) {
    HttpSource source(one, system_clock());
    const Status opened = source.open();
    ASSERT_FALSE(opened) << one.address << one.path;
    EXPECT_EQ(opened.error().code, Errc::rejected) << opened.error().text;
  }
}

TEST_F(HttpSourceTest, APortThatIsTakenIsUnavailable) {
  open();
  SourceOptions options;
  options.port = source_->port();
  HttpSource other(options, system_clock());
  const Status opened = other.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unavailable);
}

TEST_F(HttpSourceTest, SpeaksTlsWithItsCertificate) {
  const servers::Server server = servers::find("http_tls");
  const std::string certs = server.field("certs");
  SourceOptions options;
  options.cert_file = certs + "/server.pem";
  options.key_file = certs + "/server.key";
  open(options);
  Shipment one = with_id("1");
  one.ca_file = certs + "/ca.pem";
  EXPECT_EQ(through(one).status, 202);
  one.ca_file = certs + "/other-ca.pem";
  EXPECT_EQ(ship_now(one).status, 0) << "a stranger's certificate is for its client to refuse";
  EXPECT_EQ(ship_now(with_id("1")).status, 0) << "and plain HTTP is not spoken there";
}

TEST_F(HttpSourceTest, AHandshakeThatDoesNotComeIsGivenUp) {
  const std::string certs = servers::find("http_tls").field("certs");
  SourceOptions options;
  options.cert_file = certs + "/server.pem";
  options.key_file = certs + "/server.key";
  options.head_timeout = milliseconds(300);
  open(options);
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(source_->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(silent, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(send(silent, "\x16\x03\x01", 3, MSG_NOSIGNAL), 3) << "the beginning of a hello";
  pollfd closed{silent, POLLIN, 0};
  ASSERT_EQ(poll(&closed, 1, 60'000), 1);
  char byte = 0;
  EXPECT_LE(recv(silent, &byte, 1, 0), 0);
  close(silent);
}

}  // namespace
}  // namespace dovetail::http
