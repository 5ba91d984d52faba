// TLS to a real server: what fails, fails before a password is sent.
#include <gtest/gtest.h>

#include "redis/sink.h"
#include "redis/source.h"
#include "redis/test_server.h"

namespace dovetail::redis {
namespace {

class RedisTlsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    started_ = std::make_unique<servers::Started>("redis_tls");
    database_ = std::make_unique<TestDatabase>(started_->server());
  }
  static void TearDownTestSuite() {
    database_.reset();
    started_.reset();
  }
  void SetUp() override {
    ASSERT_FALSE(started_->server().conninfo.empty()) << started_->server().missing;
  }

  static std::string certificate(const std::string& file) {
    return started_->server().field("certs") + "/" + file;
  }
  Options encrypted() const {
    Options options = database_->options();
    options.port = static_cast<std::uint16_t>(std::stoi(started_->server().field("tls_port")));
    options.tls = true;
    options.ca_file = certificate("ca.pem");
    options.user = "full";
    options.password = "full-secret";
    return options;
  }
  static Status opening(const Options& options) {
    RedisSink sink(options, system_clock());
    return sink.open();
  }
  static void expect_closed(const Options& options) {
    const std::string before = commands();
    const Status opened = opening(options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::unavailable) << opened.error().text;
    EXPECT_EQ(commands(), before) << "something was sent";
  }
  // How often a client sent a password.
  static std::string commands() {
    const Reply reply = database_->run({"INFO", "commandstats"});
    const std::string_view text = reply.value().text();
    const std::size_t at = text.find("cmdstat_auth:");
    return std::string(
        text.substr(std::min(at, text.size()), at == std::string_view::npos ? 0 : 30));
  }

  inline static std::unique_ptr<servers::Started> started_;
  inline static std::unique_ptr<TestDatabase> database_;
};

TEST_F(RedisTlsTest, EventsGoThereAndComeBackEncrypted) {
  RedisSink sink(encrypted(), system_clock());
  const Status opened = sink.open();
  ASSERT_TRUE(opened) << opened.error().text;
  TestEvents events;
  std::vector<const Event*> batch;
  for (int i = 0; i < 1000; ++i)
    batch.push_back(&events.make("orders", std::to_string(i), std::string(1000, 'x')));
  for (const Outcome& outcome : send(sink, batch)) ASSERT_EQ(outcome.fate, Fate::confirmed);

  RedisSource source(encrypted(), system_clock());
  ASSERT_TRUE(source.open());
  std::size_t count = 0;
  for (int i = 0; i < 100 && count < batch.size(); ++i) {
    Batch read;
    ASSERT_TRUE(source.read(read, Limits{1000, 1 << 20, std::chrono::seconds(1)}, {}));
    count += read.size();
  }
  EXPECT_EQ(count, batch.size());
}

TEST_F(RedisTlsTest, AnotherAuthorityFailsClosed) {
  Options options = encrypted();
  options.ca_file = certificate("other-ca.pem");
  expect_closed(options);
}

TEST_F(RedisTlsTest, WhatTheSystemTrustsIsNotThisAuthority) {
  Options options = encrypted();
  options.ca_file.clear();
  expect_closed(options);
}

TEST_F(RedisTlsTest, AnAddressThatTheCertificateIsNotForFailsClosed) {
  Options options = encrypted();
  options.host = "127.0.0.2";
  expect_closed(options);
}

TEST_F(RedisTlsTest, ACertificateOfAnotherNameFailsClosed) {
  const Setting stranger(*database_, "tls-cert-file", certificate("stranger.pem"), "tls-key-file",
                         certificate("stranger.key"));
  expect_closed(encrypted());
  Options expecting = encrypted();
  expecting.server_name = "stranger.example";
  EXPECT_TRUE(opening(expecting));
}

TEST_F(RedisTlsTest, AnExpiredCertificateFailsClosed) {
  const Setting expired(*database_, "tls-cert-file", certificate("expired.pem"), "tls-key-file",
                        certificate("expired.key"));
  expect_closed(encrypted());
}

TEST_F(RedisTlsTest, AServerWithoutTlsFailsClosed) {
  Options options = encrypted();
  options.port = database_->options().port;
  options.connect_timeout = std::chrono::seconds(1);
  expect_closed(options);
}

TEST_F(RedisTlsTest, AClientWithoutTlsIsToldSo) {
  Options options = encrypted();
  options.tls = false;
  const Status opened = opening(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unavailable);
}

TEST_F(RedisTlsTest, ACertificateOfTheClientIsShownWhereItIsWanted) {
  const Setting wanted(*database_, "tls-auth-clients", "yes");
  EXPECT_FALSE(opening(encrypted()));
  Options options = encrypted();
  options.cert_file = certificate("client.pem");
  options.key_file = certificate("client.key");
  const Status opened = opening(options);
  EXPECT_TRUE(opened) << opened.error().text;
}

TEST_F(RedisTlsTest, AFileThatIsNotThereIsRejected) {
  Options options = encrypted();
  options.ca_file = certificate("no-such.pem");
  const Status opened = opening(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::rejected);
}

TEST_F(RedisTlsTest, AWrongPasswordIsUnavailable) {
  Options options = encrypted();
  options.password = "wrong";
  const Status opened = opening(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unavailable);
  EXPECT_NE(opened.error().text.find("WRONGPASS"), std::string::npos) << opened.error().text;
}

}  // namespace
}  // namespace dovetail::redis
