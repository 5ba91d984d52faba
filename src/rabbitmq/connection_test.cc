// Log-ins that succeed and that fail.
#include "rabbitmq/connection.h"

#include <gtest/gtest.h>

#include "rabbitmq/test_broker.h"

namespace dovetail::rabbitmq {
namespace {

class RabbitmqConnectionTest : public testing::Test {
 protected:
  static Status connect(const Options& options) {
    auto connection = Connection::open(options, "test", system_clock(),
                                       [](const amqp_frame_t_&) { return Status{}; });
    if (!connection) return fail(connection.error());
    DOVETAIL_TRY((*connection)->open_channel(1));
    (*connection)->close(std::chrono::seconds(10));
    return {};
  }
  Options by_tls() const {
    Options options = broker_.options();
    options.tls = true;
    options.port = static_cast<std::uint16_t>(std::stoi(broker_.server().field("tls_port")));
    options.ca_file = broker_.server().field("certs") + "/ca.pem";
    return options;
  }
  static void expect_unavailable(const Status& status, const std::string& why) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::unavailable);
    EXPECT_NE(status.error().text.find(why), std::string::npos) << status.error().text;
    EXPECT_NE(status.error().text.find("check"), std::string::npos) << status.error().text;
  }

  TestBroker broker_;
};

TEST_F(RabbitmqConnectionTest, TheRightPasswordOpens) {
  const Status status = connect(broker_.options());
  EXPECT_TRUE(status) << status.error().text;
}

TEST_F(RabbitmqConnectionTest, AWrongPasswordIsUnavailableAndIsNotShown) {
  Options options = broker_.options();
  options.password = "not-the-password";
  const Status status = connect(options);
  expect_unavailable(status, "check user, password");
  EXPECT_EQ(status.error().text.find("not-the-password"), std::string::npos);
}

TEST_F(RabbitmqConnectionTest, AVirtualHostThatIsNotThereIsNamed) {
  Options options = broker_.options();
  options.virtual_host = "no_such_host";
  expect_unavailable(connect(options), "no_such_host");
}

TEST_F(RabbitmqConnectionTest, AVirtualHostWithoutRightsIsUnavailable) {
  broker_.put("users/nobody", R"({"password":"nobody","tags":""})");
  Options options = broker_.options();
  options.user = options.password = "nobody";
  expect_unavailable(connect(options), "may use it");
}

TEST_F(RabbitmqConnectionTest, NobodyListeningIsUnavailable) {
  Options options = broker_.options();
  options.port = 1;
  expect_unavailable(connect(options), "cannot connect");
}

TEST_F(RabbitmqConnectionTest, AnotherProtocolIsUnavailable) {
  Options options = broker_.options();
  options.port = static_cast<std::uint16_t>(std::stoi(broker_.server().field("management_port")));
  options.connect_timeout = std::chrono::seconds(3);
  expect_unavailable(connect(options), "check");
}

TEST_F(RabbitmqConnectionTest, TlsWithTheRightAuthorityOpens) {
  const Status status = connect(by_tls());
  EXPECT_TRUE(status) << status.error().text;
}

TEST_F(RabbitmqConnectionTest, TlsWithAnotherAuthorityFailsClosed) {
  Options options = by_tls();
  options.ca_file = broker_.server().field("certs") + "/other-ca.pem";
  expect_unavailable(connect(options), "check ca_file");
}

TEST_F(RabbitmqConnectionTest, TlsToAHostThatTheCertificateDoesNotNameFailsClosed) {
  Options options = by_tls();
  options.host = "127.0.0.2";
  expect_unavailable(connect(options), "mismatch");
}

TEST_F(RabbitmqConnectionTest, PlainToAPortOfTlsIsUnavailable) {
  Options options = by_tls();
  options.tls = false;
  options.connect_timeout = std::chrono::seconds(3);
  expect_unavailable(connect(options), "check");
}

TEST_F(RabbitmqConnectionTest, TlsToAPlainPortFailsClosed) {
  Options options = by_tls();
  options.port = broker_.options().port;
  options.connect_timeout = std::chrono::seconds(3);
  expect_unavailable(connect(options), "TLS");
}

}  // namespace
}  // namespace dovetail::rabbitmq
