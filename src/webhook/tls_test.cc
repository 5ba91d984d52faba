// TLS of the sink, with right and wrong certificates; and what doctor finds.
#include <gtest/gtest.h>

#include "host/host.h"
#include "server/test_endpoint.h"
#include "webhook/examine.h"
#include "webhook/sink.h"

namespace dovetail::http {
namespace {

class HttpTlsTest : public testing::Test {
 protected:
  SinkOptions options(const std::string& port_field, const std::string& host = "127.0.0.1") const {
    SinkOptions options;
    options.url = "https://" + host + ":" + server_.field(port_field) + "/tls";
    options.allow_private = true;
    options.ca_file = file("ca.pem");
    return options;
  }
  std::string file(const std::string& name) const { return server_.field("certs") + "/" + name; }
  // Sends one event; returns the error, if any.
  static std::string error_of(const SinkOptions& options) {
    HttpSink sink(options, system_clock());
    if (const Status opened = sink.open(); !opened) {
      EXPECT_EQ(opened.error().code, Errc::unavailable);
      return opened.error().text;
    }
    Event event;
    event.id = new_event_id();
    event.type = "changed";
    event.content_type = "text/plain";
    event.payload = "tls";
    Batch batch;
    batch.append(event);
    const Event* one = &batch.events()[0];
    if (const Status submitted = sink.submit({&one, 1}); !submitted) return submitted.error().text;
    std::vector<Outcome> outcomes(1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      const auto known = sink.collect(outcomes, std::chrono::milliseconds(50));
      if (!known) return known.error().text;
      if (*known) return outcomes[0].fate == Fate::confirmed ? "" : outcomes[0].reason;
    }
    return "no outcome";
  }

  servers::Server server_ = servers::find("http_tls");
};

TEST_F(HttpTlsTest, TheRightAuthorityAndNameWork) {
  EXPECT_EQ(error_of(options("port")), "");
  EXPECT_EQ(error_of(options("port", "localhost")), "");
}

TEST_F(HttpTlsTest, EverythingElseFailsClosed) {
  SinkOptions other_ca = options("port");
  other_ca.ca_file = file("other-ca.pem");
  SinkOptions system_ca = options("port");
  system_ca.ca_file.clear();
  SinkOptions no_file = options("port");
  no_file.ca_file = "/nowhere.pem";
  SinkOptions plain = options("port");
  plain.url.replace(0, 5, "http");
  const std::size_t before = requests_to(server_, "/tls").size();
  EXPECT_NE(error_of(other_ca).find("ca_file"), std::string::npos) << error_of(other_ca);
  EXPECT_NE(error_of(system_ca).find("ca_file"), std::string::npos) << error_of(system_ca);
  EXPECT_NE(error_of(no_file).find("ca_file"), std::string::npos) << error_of(no_file);
  EXPECT_NE(error_of(options("stranger_port")).find("name in the certificate"), std::string::npos)
      << error_of(options("stranger_port"));
  EXPECT_NE(error_of(options("expired_port")), "");
  EXPECT_NE(error_of(plain), "");
  EXPECT_EQ(requests_to(server_, "/tls").size(), before);
}

TEST_F(HttpTlsTest, AClientsCertificateIsShownWhereItIsWanted) {
  SinkOptions with = options("client_port");
  with.cert_file = file("client.pem");
  with.key_file = file("client.key");
  EXPECT_EQ(error_of(with), "");
  EXPECT_NE(error_of(options("client_port")), "");
  SinkOptions wrong = with;
  wrong.key_file = file("server.key");
  EXPECT_NE(error_of(wrong).find("cert_file"), std::string::npos) << error_of(wrong);
}

class HttpExamineTest : public testing::Test {
 protected:
  static std::string codes(const Result<std::vector<Finding>>& findings) {
    if (!findings) return "error: " + findings.error().text;
    std::string text;
    for (const Finding& one : *findings)
      text += (text.empty() ? "" : " ") + std::string(to_string(one.severity)) + ":" + one.code;
    return text;
  }
  static constexpr Duration kConfirmTimeout = std::chrono::seconds(30);

  servers::Server server_ = servers::find("http");
  servers::Server tls_ = servers::find("http_tls");
};

TEST_F(HttpExamineTest, ASafeSinkHasNoFindings) {
  SinkOptions options;
  options.url = "https://localhost:" + tls_.field("port") + "/examined/{topic}";
  options.allow_private = true;
  options.ca_file = tls_.field("certs") + "/ca.pem";
  options.secrets = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  EXPECT_EQ(codes(examine(options, kConfirmTimeout, system_clock())), "");
}

TEST_F(HttpExamineTest, AnUnsafeSinkIsNamed) {
  SinkOptions options;
  options.allow_private = true;
  const std::string base = "http://127.0.0.1:" + server_.field("port") + "/examined";
  options.url = base;
  EXPECT_EQ(codes(examine(options, kConfirmTimeout, system_clock())), "warning:unsigned");
  options.request_timeout = kConfirmTimeout;
  EXPECT_EQ(codes(examine(options, kConfirmTimeout, system_clock())),
            "warning:unsigned warning:request-timeout");
  options.request_timeout = std::chrono::seconds(15);
  options.secrets = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  options.url = base + "?status=301&location=/x";
  EXPECT_EQ(codes(examine(options, kConfirmTimeout, system_clock())), "warning:redirect");
  options.url = base + "?status=410";
  EXPECT_EQ(codes(examine(options, kConfirmTimeout, system_clock())), "error:gone");
  options.url = base + "?date=Tue,%2014%20Nov%202023%2022:13:20%20GMT";
  EXPECT_EQ(codes(examine(options, kConfirmTimeout, system_clock())), "error:clock");
  for (const Recorded& one : requests_to(server_, "/examined")) EXPECT_EQ(one.method, "OPTIONS");
}

TEST_F(HttpExamineTest, AnEndpointThatCannotBeReachedIsUnavailable) {
  SinkOptions options;
  options.url = "http://127.0.0.1:1/";
  options.allow_private = true;
  const auto dead = examine(options, kConfirmTimeout, system_clock());
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, Errc::unavailable);
  options.url = "https://localhost:" + tls_.field("stranger_port") + "/";
  options.ca_file = tls_.field("certs") + "/ca.pem";
  EXPECT_FALSE(examine(options, kConfirmTimeout, system_clock()));
  options.allow_private = false;
  const auto inside = examine(options, kConfirmTimeout, system_clock());
  ASSERT_FALSE(inside);
  EXPECT_NE(inside.error().text.find("allow_private"), std::string::npos) << inside.error().text;
}

TEST_F(HttpExamineTest, AnEndpointOfOursIsExaminedByItsOptions) {
  SourceOptions options;
  EXPECT_EQ(codes(examine(options)), "note:open-endpoint");
  options.token = "t";
  EXPECT_EQ(codes(examine(options)), "");
  options.address = "0.0.0.0";
  EXPECT_EQ(codes(examine(options)), "error:plain-http");
  options.token.clear();
  EXPECT_EQ(codes(examine(options)), "warning:plain-http error:open-endpoint");
  options.secrets = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  options.cert_file = options.key_file = "/somewhere.pem";
  EXPECT_EQ(codes(examine(options)), "");
}

}  // namespace
}  // namespace dovetail::http
