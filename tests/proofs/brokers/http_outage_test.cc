// The HTTP sink passes the outage suite; and from our sink to our endpoint nothing is lost, doubled
// or inverted when the line or the endpoint goes down.
#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "conformance/brokers/http_stored.h"
#include "proofs/brokers/outage_source_suite.h"
#include "proofs/brokers/outage_suite.h"
#include "webhook/sink.h"
#include "webhook/source.h"

namespace dovetail::conformance {
namespace {

class Endpoint final : public OutageUnderTest {
 public:
  OutageAbilities abilities() const override {
    OutageAbilities abilities;
    abilities.can_block = true;
    return abilities;
  }
  servers::Started& server() override { return started_; }
  void begin(const std::string& name) override { path_ = "/" + name; }
  std::unique_ptr<Sink> make_sink(int port) override {
    http::SinkOptions options;
    options.url = "http://127.0.0.1:" + std::to_string(port) + path_ + "/{topic}";
    options.allow_private = true;
    return std::make_unique<http::HttpSink>(options, system_clock());
  }
  std::vector<StoredEvent> stored() override { return stored_at(started_.server(), path_); }
  void block() override { std::ofstream(down()) << "503"; }
  void unblock() override { std::filesystem::remove(down()); }

 private:
  std::string down() const { return started_.server().field("home") + "/down"; }

  servers::Started started_{"http"};
  std::string path_;
};

std::unique_ptr<OutageUnderTest> make() { return std::make_unique<Endpoint>(); }

INSTANTIATE_TEST_SUITE_P(Http, OutageSuite, testing::Values(OutageCase{"http", make}),
                         case_name<OutageCase>);

// Sender and endpoint have no broker in between that could be killed for both; the tests below
// replace that.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SourceOutageSuite);

// Our sink posts through a proxy to our endpoint; an inbox is behind it.
class HttpToHttp : public testing::Test {
 protected:
  void start() {
    auto source = std::make_unique<http::HttpSource>(source_options(), system_clock());
    ASSERT_TRUE(source->open());
    port_ = source->port();
    if (!proxy_) proxy_ = std::make_unique<servers::TcpProxy>(port_);
    consumer_ =
        std::make_unique<Consumer>(std::move(source), database_, effects_, outage_options());
  }
  void stop() {
    consumer_->stop();
    parked_ += consumer_->parked();
    consumer_.reset();
  }
  http::SourceOptions source_options() const {
    http::SourceOptions options;
    options.port = port_;
    return options;
  }
  std::unique_ptr<Sink> make_sink() const {
    http::SinkOptions options;
    options.url = "http://127.0.0.1:" + std::to_string(proxy_->port()) + "/events/{topic}";
    options.allow_private = true;
    return std::make_unique<http::HttpSink>(options, system_clock());
  }
  void finish(Flow& flow, const char* what) {
    const bool resumed = flow.goes_on();
    const bool settled = flow.finish() && resumed;
    stop();
    const Verdict verdict = flow.ledger.judge(effects_.all());
    live::claim(settled && verdict.lost == 0 && verdict.duplicates == 0 && verdict.inverted == 0 &&
                    verdict.changed == 0 && verdict.unknown == 0 && parked_ + flow.parked() == 0,
                "http to http, %s: %lu events, %lu lost, %lu applied twice, %lu inverted, %lu "
                "changed, %zu parked, %lu duplicates caught",
                what, verdict.published, verdict.lost, verdict.duplicates, verdict.inverted,
                verdict.changed, parked_ + flow.parked(), database_.duplicates("test"));
    if (HasFailure()) std::printf("%s", flow.relay().log().c_str());
  }

  std::uint16_t port_ = 0;
  MemoryInboxDatabase database_;
  Effects effects_;
  std::unique_ptr<servers::TcpProxy> proxy_;
  std::unique_ptr<Consumer> consumer_;
  std::size_t parked_ = 0;
};

TEST_F(HttpToHttp, AnEndpointThatStopsAndStartsAgainUnderLoad) {
  start();
  Flow flow(make_sink(), outage_options(seconds(10)));
  for (int i = 0; i < (live::is_long() ? 50 : 5); ++i) {
    ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
    stop();
    start();
  }
  ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
  finish(flow, "the endpoint stopped and started");
}

TEST_F(HttpToHttp, ConnectionsCutInTheMiddleOfAnswers) {
  start();
  Flow flow(make_sink(), outage_options(seconds(10)));
  for (int i = 0; i < (live::is_long() ? 200 : 16); ++i) {
    ASSERT_TRUE(flow.goes_on(i % 50)) << flow.relay().log();
    const std::uint64_t losses = proxy_->counters().losses;
    if (i % 2 == 0) {
      proxy_->cut();
      continue;
    }
    proxy_->lose_answers(static_cast<std::uint64_t>(i) * 37 % 1000);
    ASSERT_TRUE(eventually([&] { return proxy_->counters().losses > losses; }));
  }
  finish(flow, "cuts");
}

TEST_F(HttpToHttp, ALineThatHangs) {
  start();
  Flow flow(make_sink(), outage_options(seconds(1)));
  ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
  proxy_->stall();
  std::this_thread::sleep_for(seconds(2));
  proxy_->flow();
  finish(flow, "2 s without a byte");
}

}  // namespace
}  // namespace dovetail::conformance
