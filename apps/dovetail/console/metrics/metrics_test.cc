// Names, labels, and that lanes add up.
#include "console/metrics/metrics.h"

#include <gtest/gtest.h>

#include "core/relay/relay_report.h"

namespace dovetail::console {
namespace {

using namespace std::chrono_literals;

class CountingLane final : public assembly::Lane {
 public:
  Status run(std::stop_token) override { return {}; }
  const RelayMetrics& metrics() const override { return numbers; }
  RelayMetrics numbers{};
};

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(MetricsTest, OfARelayOfThisProcess) {
  config::RelayConfig relay;
  relay.name = "out \"1\"";
  CountingLane lane;
  lane.numbers.confirmed = 7;
  const auto delivering = static_cast<std::size_t>(RelayState::Kind::delivering);
  StateGauge<RelayMetrics::kStates> one(lane.numbers.lanes_in_state);
  StateGauge<RelayMetrics::kStates> other(lane.numbers.lanes_in_state);
  one.enter(delivering);
  other.enter(delivering);
  GaugePart lost(lane.numbers.sinks_lost);
  lost.set(1);
  lane.numbers.commit_to_confirm.observe(100us, 3);
  lane.numbers.commit_to_confirm.observe(1s);
  lane.numbers.commit_to_confirm.observe(3h);
  Samples samples;
  add_members(samples, {{&relay, nullptr, &lane}});
  const std::string text = samples.text();
  const std::string label = R"(relay="out \"1\"")";
  EXPECT_TRUE(has_line(text, "# TYPE dovetail_events_delivered_total counter")) << text;
  EXPECT_TRUE(has_line(text, "dovetail_events_delivered_total{" + label + "} 7")) << text;
  EXPECT_TRUE(has_line(text, "dovetail_lanes{" + label + ",state=\"delivering\"} 2")) << text;
  EXPECT_TRUE(has_line(text, "dovetail_sink_up{" + label + "} 0")) << text;
  const std::string histogram = "dovetail_commit_to_confirm_seconds";
  EXPECT_TRUE(has_line(text, histogram + "_bucket{" + label + ",le=\"6.4e-05\"} 0")) << text;
  EXPECT_TRUE(has_line(text, histogram + "_bucket{" + label + ",le=\"0.000128\"} 3")) << text;
  EXPECT_TRUE(has_line(text, histogram + "_bucket{" + label + ",le=\"+Inf\"} 5")) << text;
  EXPECT_TRUE(has_line(text, histogram + "_count{" + label + "} 5")) << text;
  EXPECT_NE(text.find(histogram + "_sum{" + label + "} 10801.0003"), std::string::npos) << text;
}

TEST(MetricsTest, OfDatabasesOnlyWhatTheySaid) {
  config::StoreConfig store;
  store.name = "shop";
  store.scheme = config::StoreScheme::postgres;
  config::Config config;
  app::Overview overview;
  overview.config = &config;
  overview.stores.push_back({&store, assembly::StoreStatus{}});
  assembly::RelayStatus relay;
  relay.name = "out";
  relay.pending = 5;
  relay.parked = 1;
  relay.waiting = 2;
  relay.lanes.resize(2);
  relay.lanes[1].lane = 1;
  relay.lanes[1].pending = 3;
  relay.lanes[1].lease_left = 1s;
  overview.stores[0].status->relays.push_back(relay);
  Samples samples;
  add_stores(samples, overview);
  std::string text = samples.text();
  EXPECT_TRUE(has_line(text, R"(dovetail_store_up{store="shop"} 1)")) << text;
  EXPECT_TRUE(has_line(text, R"(dovetail_pending_events{store="shop",relay="out"} 5)")) << text;
  EXPECT_TRUE(has_line(text, R"(dovetail_parked_keys{store="shop",relay="out"} 1)")) << text;
  EXPECT_TRUE(has_line(text, R"(dovetail_parked_events{store="shop",relay="out"} 3)")) << text;
  EXPECT_TRUE(
      has_line(text, R"(dovetail_lane_pending_events{store="shop",relay="out",lane="1"} 3)"))
      << text;
  EXPECT_TRUE(has_line(text, R"(dovetail_lane_owned{store="shop",relay="out",lane="0"} 0)"))
      << text;

  overview.stores[0].status->relays[0].is_pending_known = false;
  Samples unknown;
  add_stores(unknown, overview);
  EXPECT_EQ(unknown.text().find("pending_events"), std::string::npos);

  overview.stores[0].status.reset();
  overview.stores[0].failure = app::Failure{app::Exit::unavailable, "away"};
  Samples away;
  add_stores(away, overview);
  text = away.text();
  EXPECT_TRUE(has_line(text, R"(dovetail_store_up{store="shop"} 0)")) << text;
  EXPECT_EQ(text.find("dovetail_parked_keys"), std::string::npos) << text;
}

TEST(MetricsTest, OfProblemsEveryKind) {
  app::Problem problem;
  problem.kind = app::ProblemKind::lag;
  Samples samples;
  add_problems(samples, {problem, problem});
  add_build(samples, "1.2.3");
  const std::string text = samples.text();
  EXPECT_TRUE(has_line(text, R"(dovetail_problems{kind="lag"} 2)")) << text;
  EXPECT_TRUE(has_line(text, R"(dovetail_problems{kind="broker-away"} 0)")) << text;
  EXPECT_TRUE(has_line(text, R"(dovetail_build_info{version="1.2.3"} 1)")) << text;
}

}  // namespace
}  // namespace dovetail::console
