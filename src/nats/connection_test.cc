#include "nats/connection.h"

#include <gtest/gtest.h>

#include <thread>

#include "host/host.h"
#include "nats/test_server.h"

namespace dovetail::nats {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Errc code_of(const Result<Connection>& opened) {
  EXPECT_FALSE(opened);
  return opened ? Errc::stopped : opened.error().code;
}

std::string text_of(const Result<Connection>& opened) { return opened ? "" : opened.error().text; }

TEST(NatsConnection, WhatIsPublishedBelowItsInboxComesBack) {
  auto connection = Connection::open(connection_to());
  ASSERT_TRUE(connection) << connection.error().text;
  EXPECT_EQ(connection->server().version.substr(0, 2), "2.");
  EXPECT_TRUE(connection->server().jetstream);
  EXPECT_EQ(std::to_string(connection->server().max_payload),
            servers::find("nats").field("max_payload"));
  connection->publish(connection->inbox() + "x", "", "hello");
  std::string got;
  const TimePoint end = system_clock().now() + seconds(30);
  while (got.empty() && system_clock().now() < end)
    ASSERT_TRUE(connection->pump(seconds(1), [&](const Frame& frame) { got = frame.payload; }));
  EXPECT_EQ(got, "hello");
}

TEST(NatsConnection, AWrongPasswordIsUnavailableAndNotShown) {
  ConnectionOptions options = connection_to();
  options.password = "not-the-password";
  const auto opened = Connection::open(options);
  EXPECT_EQ(code_of(opened), Errc::unavailable);
  EXPECT_NE(text_of(opened).find("check user and password"), std::string::npos) << text_of(opened);
  EXPECT_EQ(text_of(opened).find("not-the-password"), std::string::npos);
}

TEST(NatsConnection, AUserWhoMayNotSubscribeIsTold) {
  ConnectionOptions options = connection_to();
  options.user = "mute";
  options.password = "mute-secret";
  const auto opened = Connection::open(options);
  EXPECT_EQ(code_of(opened), Errc::unavailable);
  EXPECT_NE(text_of(opened).find("inbox_prefix"), std::string::npos) << text_of(opened);
}

TEST(NatsConnection, TlsIsNotGivenUpBecauseTheServerHasNone) {
  ConnectionOptions options = connection_to();
  options.tls = true;
  const auto opened = Connection::open(options);
  EXPECT_EQ(code_of(opened), Errc::unavailable);
  EXPECT_NE(text_of(opened).find("does not offer TLS"), std::string::npos) << text_of(opened);
}

TEST(NatsConnection, TheNextServerIsTriedWhenOneIsGone) {
  ConnectionOptions options = connection_to();
  options.servers.insert(options.servers.begin(), net::Endpoint{"127.0.0.1", 1});
  const auto opened = Connection::open(options);
  EXPECT_TRUE(opened) << text_of(opened);
}

TEST(NatsConnection, AWakeUpEndsAWait) {
  auto connection = Connection::open(connection_to());
  ASSERT_TRUE(connection);
  const TimePoint start = system_clock().now();
  std::jthread waker([&] {
    std::this_thread::sleep_for(milliseconds(20));
    connection->wake();
  });
  ASSERT_TRUE(connection->pump(seconds(60), [](const Frame&) {}));
  EXPECT_LT(system_clock().now() - start, seconds(30));
}

TEST(NatsConnection, AnErrorOfTheServerEndsTheConnectionWithItsText) {
  auto connection = Connection::open(connection_to());
  ASSERT_TRUE(connection);
  connection->out() += "NONSENSE\r\n";
  const TimePoint end = system_clock().now() + seconds(30);
  Status pumped;
  while (pumped && system_clock().now() < end)
    pumped = connection->pump(seconds(1), [](const Frame&) {});
  ASSERT_FALSE(pumped);
  EXPECT_EQ(pumped.error().code, Errc::unavailable);
  EXPECT_FALSE(connection->pump(Duration{0}, [](const Frame&) {}));
}

TEST(NatsJetStream, TheStreamOfASubjectIsFound) {
  Operator admin;
  const std::string name = own_name("FIND");
  admin.make_stream(name, name + ".>");
  auto connection = Connection::open(connection_to());
  ASSERT_TRUE(connection);
  JetStream jetstream(*connection, "", seconds(30));
  EXPECT_EQ(jetstream.streams_of(name + ".x"), (std::vector<std::string>{name}));
  EXPECT_EQ(jetstream.streams_of(name + "nothing"), (std::vector<std::string>{}));
  const auto unknown = jetstream.ask("CONSUMER.INFO." + name + ".nobody");
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->error_number(), kConsumerNotFound);
  const auto required = jetstream.require("STREAM.INFO.NO_SUCH_STREAM");
  ASSERT_FALSE(required);
  EXPECT_NE(required.error().text.find("stream not found"), std::string::npos);
  admin.drop_stream(name);
}

TEST(NatsJetStream, AnAccountWithoutItIsTold) {
  ConnectionOptions options = connection_to();
  options.user = "bare";
  options.password = "bare-secret";
  auto connection = Connection::open(options);
  ASSERT_TRUE(connection) << connection.error().text;
  JetStream jetstream(*connection, "", seconds(30));
  const auto answer = jetstream.ask("INFO");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::unavailable);
  EXPECT_NE(answer.error().text.find("not enabled for this account"), std::string::npos);
}

}  // namespace
}  // namespace dovetail::nats
