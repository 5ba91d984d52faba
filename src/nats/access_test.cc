// Who may connect: TLS by a throw-away authority, and tokens.
#include <gtest/gtest.h>

#include "host/host.h"
#include "nats/connection.h"
#include "nats/sink.h"
#include "nats/test_server.h"

namespace dovetail::nats {
namespace {

std::string certificate(const servers::Server& server, const std::string& name) {
  return server.field("certs") + "/" + name;
}

ConnectionOptions by_tls(const servers::Server& server) {
  ConnectionOptions options = connection_to(server);
  options.tls = true;
  options.ca_file = certificate(server, "ca.pem");
  return options;
}

void expect_refused(const ConnectionOptions& options, const std::string& why) {
  const Result<Connection> opened = Connection::open(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unavailable);
  EXPECT_NE(opened.error().text.find(why), std::string::npos) << opened.error().text;
}

class NatsTls : public testing::Test {
 protected:
  static void SetUpTestSuite() { started_ = std::make_unique<servers::Started>("nats_tls"); }
  static void TearDownTestSuite() { started_.reset(); }
  const servers::Server& server() const { return started_->server(); }

 private:
  inline static std::unique_ptr<servers::Started> started_;
};

TEST_F(NatsTls, EventsGoOverTlsWhenTheServerIsTheRightOne) {
  Operator admin(by_tls(server()));
  admin.make_stream("TLS", "tls.>");
  Options options{{by_tls(server())}};
  NatsSink sink(options, system_clock());
  const Status opened = sink.open();
  ASSERT_TRUE(opened) << opened.error().text;
  // Long enough for many records of TLS.
  const std::string payload(500'000, 'x');
  Event event;
  event.id = new_event_id();
  event.topic = "tls.a";
  event.aggregate_type = event.type = "t";
  event.content_type = "text/plain";
  event.payload = payload;
  const Event* const events[] = {&event};
  ASSERT_TRUE(sink.submit(events));
  Outcome outcome;
  Result<bool> known = false;
  const TimePoint end = system_clock().now() + std::chrono::seconds(30);
  while (known && !*known && system_clock().now() < end)
    known = sink.collect({&outcome, 1}, std::chrono::seconds(1));
  ASSERT_TRUE(known) << known.error().text;
  EXPECT_EQ(outcome.fate, Fate::confirmed) << outcome.reason;
  const auto stored = admin.stored("TLS");
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_TRUE(stored[0].payload == payload);
}

TEST_F(NatsTls, AnotherAuthorityIsNotTrusted) {
  ConnectionOptions options = by_tls(server());
  options.ca_file = certificate(server(), "other-ca.pem");
  expect_refused(options, "check ca_file");
}

TEST_F(NatsTls, WithoutAnAuthorityTheSystemDecides) {
  ConnectionOptions options = by_tls(server());
  options.ca_file.clear();
  expect_refused(options, "check ca_file");
}

TEST_F(NatsTls, AServerThatWantsTlsIsNotSpokenToWithout) {
  ConnectionOptions options = by_tls(server());
  options.tls = false;
  expect_refused(options, "nats+tls");
}

TEST_F(NatsTls, AWrongPasswordIsToldOverTlsAsWell) {
  ConnectionOptions options = by_tls(server());
  options.password = "wrong";
  expect_refused(options, "check user and password");
}

TEST_F(NatsTls, AFileThatIsNotThereIsRejected) {
  ConnectionOptions options = by_tls(server());
  options.ca_file += ".missing";
  const Result<Connection> opened = Connection::open(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::rejected) << opened.error().text;
}

TEST(NatsTlsStranger, ACertificateForAnotherNameIsRefused) {
  const servers::Started started("nats_stranger");
  expect_refused(by_tls(started.server()), "mismatch");
  ConnectionOptions named = by_tls(started.server());
  named.server_name = "stranger.example";
  const Result<Connection> opened = Connection::open(named);
  EXPECT_TRUE(opened) << opened.error().text;
}

TEST(NatsTlsMutual, TheClientShowsItsCertificate) {
  const servers::Started started("nats_mutual");
  EXPECT_FALSE(Connection::open(by_tls(started.server())));
  ConnectionOptions options = by_tls(started.server());
  options.cert_file = certificate(started.server(), "client.pem");
  options.key_file = certificate(started.server(), "client.key");
  const Result<Connection> opened = Connection::open(options);
  EXPECT_TRUE(opened) << opened.error().text;
}

TEST(NatsToken, ATokenIsEnoughAndAWrongOneIsNot) {
  const servers::Started started("nats_token");
  ConnectionOptions options = connection_to(started.server());
  options.token = started.server().field("token");
  const Result<Connection> opened = Connection::open(options);
  EXPECT_TRUE(opened) << opened.error().text;
  options.token = "another-token";
  expect_refused(options, "check user and password, or token");
}

}  // namespace
}  // namespace dovetail::nats
