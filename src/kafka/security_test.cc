// TLS and SASL against a server with certificates of a throw-away authority. If anything is wrong,
// the connection fails and nothing is sent.
#include <gtest/gtest.h>

#include <string>

#include "host/host.h"
#include "kafka/sink.h"
#include "kafka/source.h"
#include "kafka/test_cluster.h"
#include "kafka/test_events.h"

namespace dovetail::kafka {
namespace {

class KafkaSecurityTest : public testing::Test {
 protected:
  Options over_tls(const std::string& port_field) const {
    Options options = cluster_.options();
    options.brokers = cluster_.address(port_field);
    options.tls = true;
    options.ca_file = certs() / "ca.pem";
    return options;
  }
  static Options as_user(Options options, const std::string& mechanism,
                         const std::string& password) {
    options.sasl_mechanism = mechanism;
    options.user = "limited";
    options.password = password;
    return options;
  }
  std::filesystem::path certs() const { return cluster_.server().field("certs"); }

  void expect_works(const Options& options) {
    cluster_.create_topic("orders");
    KafkaSink sink(options, system_clock());
    const Status opened = sink.open();
    ASSERT_TRUE(opened) << opened.error().text;
    const auto outcomes = deliver_once(sink, {&events_.make("orders", "a", "1")});
    EXPECT_EQ(outcomes[0].fate, Fate::confirmed) << outcomes[0].reason;
    EXPECT_EQ(cluster_.messages("orders").size(), 1U);
  }
  // It works neither as a sink nor as a source, and the text says what to check.
  static void expect_unavailable(Options options, const std::string& check) {
    options.topics = {"orders"};
    KafkaSink sink(options, system_clock());
    KafkaSource source(options, system_clock());
    for (const Status& opened : {sink.open(), source.open()}) {
      ASSERT_FALSE(opened);
      EXPECT_EQ(opened.error().code, Errc::unavailable);
      EXPECT_NE(opened.error().text.find(check), std::string::npos) << opened.error().text;
      EXPECT_EQ(opened.error().text.find("-secret"), std::string::npos) << opened.error().text;
    }
  }

  TestCluster cluster_;
  TestEvents events_;
};

TEST_F(KafkaSecurityTest, TlsWithTheRightAuthorityWorks) { expect_works(over_tls("tls_port")); }

TEST_F(KafkaSecurityTest, AnotherAuthorityIsNotTrusted) {
  Options options = over_tls("tls_port");
  options.ca_file = certs() / "other-ca.pem";
  expect_unavailable(options, "check ca_file");
}

TEST_F(KafkaSecurityTest, WithoutAnAuthorityTheSystemsAreTrustedAndNoOther) {
  Options options = over_tls("tls_port");
  options.ca_file.clear();
  expect_unavailable(options, "check ca_file");
}

TEST_F(KafkaSecurityTest, ACertificateForAnotherHostIsNotAccepted) {
  expect_unavailable(over_tls("stranger_port"), "certificate names this host");
}

TEST_F(KafkaSecurityTest, AClientWithItsCertificateIsLetIn) {
  Options options = over_tls("mutual_port");
  options.cert_file = certs() / "client.pem";
  options.key_file = certs() / "client.key";
  expect_works(options);
}

TEST_F(KafkaSecurityTest, AClientWithoutCertificateIsNotLetInWhereOneIsWanted) {
  expect_unavailable(over_tls("mutual_port"), "check");
}

TEST_F(KafkaSecurityTest, TlsToAServerThatSpeaksNoneFails) {
  expect_unavailable(over_tls("port"), "check");
}

TEST_F(KafkaSecurityTest, NoTlsToAServerThatWantsItFails) {
  Options options = cluster_.options();
  options.brokers = cluster_.address("tls_port");
  options.connect_timeout = std::chrono::seconds(3);
  expect_unavailable(options, "check");
}

TEST_F(KafkaSecurityTest, AMissingFileIsNamed) {
  Options options = over_tls("tls_port");
  options.ca_file = certs() / "no-such.pem";
  KafkaSink sink(options, system_clock());
  const Status opened = sink.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::rejected);
  EXPECT_NE(opened.error().text.find("ssl.ca.location"), std::string::npos) << opened.error().text;
}

TEST_F(KafkaSecurityTest, AUserWithAPasswordIsLetIn) {
  Options options = cluster_.options();
  options.brokers = cluster_.address("sasl_port");
  expect_works(as_user(options, "PLAIN", "limited-secret"));
}

TEST_F(KafkaSecurityTest, AUserIsLetInByScramOverTls) {
  expect_works(as_user(over_tls("sasl_tls_port"), "SCRAM-SHA-256", "limited-secret"));
}

TEST_F(KafkaSecurityTest, AWrongPasswordIsUnavailableWithWhatToCheck) {
  for (const char* mechanism : {"PLAIN", "SCRAM-SHA-256"})
    expect_unavailable(as_user(over_tls("sasl_tls_port"), mechanism, "wrong-secret"),
                       "check user, password");
}

TEST_F(KafkaSecurityTest, NoPasswordWhereOneIsWantedFails) {
  Options options = cluster_.options();
  options.brokers = cluster_.address("sasl_port");
  options.connect_timeout = std::chrono::seconds(3);
  expect_unavailable(options, "check");
}

}  // namespace
}  // namespace dovetail::kafka
