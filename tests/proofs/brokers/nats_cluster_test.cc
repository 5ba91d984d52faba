// Three NATS servers and a stream with three copies: leaders change and a server dies while events
// flow; nothing is lost or out of order.
#include <sstream>
#include <string>
#include <vector>

#include "conformance/brokers/nats_stored.h"
#include "nats/examine.h"
#include "nats/sink.h"
#include "nats/source.h"
#include "proofs/brokers/outage_source_suite.h"

namespace dovetail::conformance {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OutageSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SourceOutageSuite);

namespace {

class NatsCluster : public testing::Test {
 protected:
  static void SetUpTestSuite() { started_ = std::make_unique<servers::Started>("nats_cluster"); }
  static void TearDownTestSuite() { started_.reset(); }

  void SetUp() override {
    ask_until_done("STREAM.CREATE.ORDERS",
                   R"({"name":"ORDERS","subjects":["orders"],"storage":"file",)"
                   R"("num_replicas":3,"duplicate_window":600000000000})");
  }
  void TearDown() override { ask_until_done("STREAM.DELETE.ORDERS", "", nats::kStreamNotFound); }
  // All servers, starting with number `first`.
  static nats::ConnectionOptions connection(std::size_t first) {
    std::vector<net::Endpoint> all;
    std::istringstream ports(started_->server().field("ports"));
    for (std::string port; std::getline(ports, port, ',');)
      all.push_back({"127.0.0.1", static_cast<std::uint16_t>(std::stoi(port))});
    nats::ConnectionOptions options;
    for (std::size_t i = 0; i < all.size(); ++i)
      options.servers.push_back(all[(first + i) % all.size()]);
    options.connect_timeout = seconds(3);
    options.request_timeout = seconds(3);
    return options;
  }
  static std::unique_ptr<Sink> make_sink() {
    nats::Options options{{connection(0)}};
    return std::make_unique<nats::NatsSink>(options, system_clock());
  }
  static std::unique_ptr<Source> make_source() {
    nats::Options options{{connection(0)}};
    options.stream = "ORDERS";
    options.group = "reader";
    options.long_poll = seconds(1);
    return std::make_unique<nats::NatsSource>(options, system_clock());
  }
  // Without a leader there is no answer, so it asks again. What is asked may be done twice; `done`
  // is the error that says so.
  static void ask_until_done(const std::string& what, const std::string& body = {}, int done = 0) {
    std::string said;
    const bool asked = eventually([&] {
      Result<nats::Connection> to = nats::Connection::open(connection(1));
      if (!to) return false;
      const Result<nats::Answer> answer = nats::JetStream(*to, "", seconds(3)).ask(what, body);
      said = answer ? answer->error_text() : answer.error().text;
      return answer && (answer->error_number() == 0 || answer->error_number() == done);
    });
    ASSERT_TRUE(asked) << what << ": " << said;
  }

  inline static std::unique_ptr<servers::Started> started_;
};

TEST_F(NatsCluster, LeadersChangeAndAServerDiesUnderLoad) {
  Flow flow(make_sink(), outage_options(seconds(5)));
  const int changes = live::is_long() ? 20 : 3;
  for (int i = 0; i < changes; ++i) {
    ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
    ask_until_done("STREAM.LEADER.STEPDOWN.ORDERS");
  }
  ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
  ASSERT_TRUE(started_->kill());
  ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
  ASSERT_TRUE(started_->again());
  const bool settled = flow.finish();
  nats::Operator admin(connection(1));
  // The reader may be on the restarted server, which must first fetch what it missed.
  Verdict verdict;
  EXPECT_TRUE(eventually([&] {
    verdict = flow.ledger.judge(stored_in(admin, "ORDERS"));
    return verdict.lost == 0;
  }));
  live::claim(
      settled && verdict.lost == 0 && verdict.inverted == 0 && verdict.changed == 0 &&
          flow.parked() == 0,
      "nats, three servers, %d changes of the leader, one killed: %lu events, %lu lost, %lu "
      "inverted, %zu parked, %lu duplicates, %lu reconnects",
      changes, verdict.published, verdict.lost, verdict.inverted, flow.parked(), verdict.duplicates,
      flow.relay().metrics.sink_errors.load());
  if (HasFailure()) std::printf("%s", flow.relay().log().c_str());
}

TEST_F(NatsCluster, LeadersOfTheConsumerChangeUnderLoad) {
  Flow flow(make_sink(), outage_options());
  MemoryInboxDatabase database;
  Effects effects;
  Consumer consumer(make_source(), database, effects, outage_options());
  const auto goes_on = [&] {
    const std::size_t from = effects.count();
    return eventually([&] { return effects.count() >= from + 100; });
  };
  const int changes = live::is_long() ? 20 : 2;
  for (int i = 0; i < changes; ++i) {
    ASSERT_TRUE(goes_on()) << consumer.relay().log();
    ask_until_done("CONSUMER.LEADER.STEPDOWN.ORDERS.reader");
  }
  ASSERT_TRUE(goes_on()) << consumer.relay().log();
  const bool settled = flow.finish();
  const std::uint64_t published = flow.ledger.judge({}).published;
  const bool all = settled && eventually([&] { return effects.count() >= published; });
  consumer.stop();
  const Verdict verdict = flow.ledger.judge(effects.all());
  live::claim(
      all && verdict.lost == 0 && verdict.inverted == 0 && verdict.duplicates == 0,
      "nats as a source, three servers, %d changes of the leader: %lu events, %lu lost, %lu "
      "inverted, %lu applied twice, %lu reconnects",
      changes, verdict.published, verdict.lost, verdict.inverted, verdict.duplicates,
      consumer.relay().metrics.session_errors.load());
  if (HasFailure()) std::printf("%s", consumer.relay().log().c_str());
}

TEST_F(NatsCluster, AStreamWithThreeCopiesHasNothingButItsOldServer) {
  nats::Examined what;
  what.connection = connection(0);
  what.subjects = {"orders"};
  const auto findings = nats::examine(what);
  ASSERT_TRUE(findings) << findings.error().text;
  ASSERT_EQ(findings->size(), 1U);
  EXPECT_EQ(findings->at(0).code, "nats-server-old");
}

}  // namespace
}  // namespace dovetail::conformance
