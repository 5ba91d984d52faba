// Each kind of problem, from the words of real errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "config/config.h"
#include "overview/problems.h"
#include "overview/progress.h"
#include "overview/status_json.h"

namespace dovetail::app {
namespace {

using assembly::StoreStatus;
using namespace std::chrono_literals;

constexpr std::string_view kConfig = R"(
[store.shop]
url = "postgres:host=db dbname=shop"
[store.bus]
url = "kafka://k1:9092"
[store.stock]
url = "postgres:host=db dbname=stock"
[[relay]]
name = "out"
from = "shop"
to = "bus"
[[relay]]
name = "old"
from = "shop"
to = "bus"
[relay.table]
preset = "sent_at"
[[consumer]]
name = "taker"
from = "shop"
to = "stock"
[[consumer.handler]]
kind = "sql"
function = "apply"
)";

class Overviews : public ::testing::Test {
 protected:
  Overviews() {
    auto parsed = config::parse_config(kConfig, "dovetail.toml");
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().text);
    config_ = std::move(*parsed);
    overview_.config = &config_;
    overview_.at = WallTime{} + 1'000'000h / 3;
    for (const config::StoreConfig& store : config_.stores) {
      StoreView& view = overview_.stores.emplace_back();
      view.store = &store;
      if (!store.is_broker()) view.status.emplace();
    }
    for (const char* name : {"out", "old", "taker"}) {
      assembly::RelayStatus& relay = shop().relays.emplace_back();
      relay.name = name;
      relay.owner = "host:1";
      relay.lease_left = 5s;
      relay.delivered_total = 7;
      say(name, "delivering", "");
    }
  }

  StoreView& view() {
    return *std::find_if(overview_.stores.begin(), overview_.stores.end(),
                         [](const StoreView& one) { return one.store->name == "shop"; });
  }
  StoreStatus& shop() { return *view().status; }
  assembly::RelayStatus& relay(std::string_view name) {
    return *std::find_if(shop().relays.begin(), shop().relays.end(),
                         [&](const auto& one) { return one.name == name; });
  }
  void say(std::string_view name, std::string state, std::string error) {
    SaidState said;
    said.state = std::move(state);
    said.last_error = std::move(error);
    said.since = overview_.at - 3min;
    said.is_current = true;
    relay(name).said = std::move(said);
  }
  std::vector<Problem> problems() const { return problems_of(overview_, {}); }
  Problem only() const {
    const auto found = problems();
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? Problem{} : found.front();
  }
  std::string title() const { return verdict_of(overview_, problems()).title; }
  std::string kind_of(std::string_view name, std::string state, std::string error) {
    say(name, std::move(state), std::move(error));
    return std::string(to_string(only().kind));
  }

  config::Config config_;
  Overview overview_;
};

TEST_F(Overviews, AllIsWell) {
  EXPECT_TRUE(problems().empty());
  const Verdict verdict = verdict_of(overview_, {});
  EXPECT_EQ(verdict.kind, "ok");
  EXPECT_EQ(verdict.title, "Everything is delivered.");
  EXPECT_EQ(verdict.text, "21 events in all. Three relays run, and nothing is parked.");
  relay("out").pending = 12;
  relay("out").oldest_age = 3s;
  EXPECT_EQ(title(), "Everything is on its way.");
}

TEST_F(Overviews, OfNoEvents) {
  for (auto& one : shop().relays) one.delivered_total = 0;
  EXPECT_EQ(title(), "Nothing was published or read yet.");
}

// The words of the adapters, as a relay reported them.
TEST_F(Overviews, TheKindFollowsFromTheError) {
  const std::string away =
      "Kafka at k1:9092: Connect to ipv4#10.0.0.1:9092 failed: Connection refused; check that the "
      "brokers run";
  EXPECT_EQ(kind_of("out", "backing_off", away), "broker-away");
  EXPECT_EQ(title(), "The broker bus is away.");
  EXPECT_EQ(only().where.store, "shop");
  EXPECT_EQ(only().where.relay, "out");
  EXPECT_EQ(only().since, overview_.at - 3min);
  EXPECT_EQ(kind_of("out", "backing_off", "Kafka: topic orders does not exist; create it"),
            "missing-topic");
  EXPECT_EQ(kind_of("out", "backing_off",
                    "cannot connect: connection to server at \"db\", port 5432 failed: Connection "
                    "refused; check the connection settings and that the server runs"),
            "database-away");
  EXPECT_EQ(kind_of("out", "backing_off",
                    "the connection to the server is lost: FATAL: server login has been failing, "
                    "try again later (server_login_retry)"),
            "database-away");
  EXPECT_EQ(kind_of("out", "backing_off", "the disk is full; free some space or prune the file"),
            "disk-full");
  EXPECT_EQ(kind_of("out", "backing_off",
                    "the lease ran out before it was renewed; the slowest step since the last "
                    "renewal was calling the sink, 900 ms"),
            "lease-lost");
  EXPECT_EQ(kind_of("out", "backing_off", "the clock was set: it shows 2031"), "clock-step");
  EXPECT_EQ(kind_of("out", "halted", "the lane counts do not match"), "relay-halted");
  say("out", "delivering", "");
  EXPECT_EQ(kind_of("old", "halted", "the table old_outbox has no column \"p\""), "wrong-mapping");
  say("old", "delivering", "");
  say("taker", "backing_off", "apply() raised: division by zero");
  EXPECT_TRUE(problems().empty()) << "what failed is parked, and nothing is left";
  relay("taker").pending = 1;
  EXPECT_EQ(kind_of("taker", "backing_off", "apply() raised: division by zero"), "handler-failing");
  EXPECT_EQ(title(), "The handlers of the consumer taker fail.");
}

TEST_F(Overviews, ADatabaseThatIsAwayIsToldOnce) {
  view().status.reset();
  view().failure = Failure{Exit::unavailable, "store shop: cannot connect: refused"};
  EXPECT_EQ(to_string(only().kind), "database-away");
  EXPECT_EQ(title(), "The database shop is away.");
  const Verdict verdict = verdict_of(overview_, problems());
  EXPECT_EQ(
      verdict.text,
      "Nothing is lost: how many events wait is not known now. None of three relays delivers.");
  view().failure = Failure{Exit::corrupt, "store shop: version 99"};
  EXPECT_EQ(to_string(only().kind), "database-unusable");
}

// Where replication_url goes past a pooler, the url leads to it.
TEST_F(Overviews, APoolerThatIsDown) {
  config_.stores[1].replication_where = "dovetail.toml:3:1";
  view().status.reset();
  view().failure = Failure{Exit::unavailable, "store shop: cannot connect: Connection refused"};
  EXPECT_EQ(to_string(only().kind), "pooler-down");
  EXPECT_EQ(title(), "The pooler before the database shop is down.");
  view().failure = Failure{Exit::unavailable, "store shop: cannot connect: timeout expired"};
  EXPECT_EQ(to_string(only().kind), "database-away");
}

TEST_F(Overviews, TheRestOfTheKinds) {
  relay("out").error = "no such table";
  relay("out").table = "old_outbox";
  EXPECT_EQ(to_string(only().kind), "wrong-mapping");
  relay("out").error.clear();
  relay("out").table.clear();

  relay("out").lease_left = {};
  relay("out").said->is_current = false;
  relay("out").pending = 2;
  EXPECT_EQ(to_string(only().kind), "lease-lost");
  EXPECT_EQ(title(), "No process runs the relay out: its lease ran out.");
  EXPECT_TRUE(only().text.starts_with("host:1 did not renew it; what that process wrote here"));
  relay("out").lease_ended_at = overview_.at - 40s;
  EXPECT_TRUE(only().text.starts_with("host:1 did not renew it, and it ended 40 s ago; "));
  EXPECT_EQ(only().since, overview_.at - 40s);
  relay("out").lease_ended_at = {};
  relay("out").owner.clear();
  EXPECT_EQ(to_string(only().kind), "no-owner");
  EXPECT_EQ(title(), "No process runs the relay out.");
  relay("out").owner = "host:1";
  relay("out").lease_left = 5s;
  relay("out").oldest_age = 5s;
  EXPECT_TRUE(problems().empty()) << "it has only begun";
  relay("out").oldest_age = 11s;
  EXPECT_EQ(title(), "The relay out runs and keeps no report here.");
  EXPECT_NE(only().text.find("as on a full disk"), std::string::npos);
  relay("out").oldest_age = {};
  relay("out").said->is_current = true;

  relay("out").oldest_age = 10min;
  EXPECT_EQ(only().title, "The relay out is 10 min behind");
  EXPECT_EQ(to_string(only().kind), "lag");
  relay("out").oldest_age = {};

  relay("out").reading = assembly::Reading{true, {}, "", "slot", std::uint64_t{900} << 20};
  EXPECT_EQ(to_string(only().kind), "wal-budget");
  relay("out").reading =
      assembly::Reading{false, {}, "the slot s is gone; the gap is closed", "", 0};
  EXPECT_EQ(to_string(only().kind), "slot-lost");
  EXPECT_EQ(only().title, "The relay out lost its slot in shop");
  relay("out").reading->why = "all replication slots are in use (53400)";
  EXPECT_EQ(to_string(only().kind), "slot-lost");
  EXPECT_EQ(only().title, "The relay out gets no slot in shop");
  relay("out").reading.reset();

  shop().consumers.push_back({.name = "taker", .trying = 2});
  EXPECT_EQ(only().title, "2 events of the consumer taker fail");
  shop().consumers.clear();

  view().clock = "the clock was set";
  EXPECT_EQ(to_string(only().kind), "clock-step");
  view().clock.reset();
  shop().clock_ahead = -3h;
  EXPECT_EQ(to_string(only().kind), "clock-step");
  EXPECT_EQ(only().title, "The clocks of the database shop and of this machine differ");
  EXPECT_EQ(only().text, "Its clock is 3 h behind the clock of this machine.");
  shop().clock_ahead = -1s;
  shop().room_bytes = 4096;
  EXPECT_EQ(to_string(only().kind), "disk-full");
  EXPECT_NE(only().text.find(" are free on the disk of "), std::string::npos) << only().text;
  shop().room_bytes.reset();
  EXPECT_TRUE(problems().empty());

  relay("out").hold = {Hold::paused, overview_.at - 1h, "ann", "a release"};
  relay("out").lease_left = {};
  relay("out").pending = 5;
  EXPECT_EQ(only().title, "The relay out is paused by ann");
  EXPECT_EQ(only().text, "a release");
  EXPECT_EQ(to_string(only().kind), "paused");
  EXPECT_EQ(verdict_of(overview_, problems()).kind, "note");
}

TEST_F(Overviews, ARelayThatNeverRanIsNamedWhereEventsWait) {
  shop().relays.clear();
  shop().outbox_rows = 3;
  const auto found = problems();
  ASSERT_EQ(found.size(), 2U) << "old reads a table of its own";
  EXPECT_EQ(to_string(found[0].kind), "no-owner");
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(
      verdict_of(overview_, found).text,
      "Nothing is lost: how many events wait is not known now. None of three relays delivers.");
}

TEST_F(Overviews, TheWorstIsFirstAndNothingIsSaidTwice) {
  relay("out").parked = 2;
  relay("out").waiting = 5;
  say("out", "backing_off", "Kafka at k1:9092: refused");
  say("old", "backing_off", "Kafka at k1:9092: refused");
  say("taker", "halted", "bad");
  const auto found = problems();
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(to_string(found[0].kind), "broker-away");
  EXPECT_EQ(to_string(found[2].kind), "relay-halted");
  EXPECT_EQ(to_string(found[3].kind), "parked");
  EXPECT_EQ(title(), "The broker bus is away, the consumer taker is halted, and one more problem.");
  const Totals totals = totals_of(overview_, found);
  EXPECT_EQ(totals.silent, 3U);
  EXPECT_EQ(totals.parked, 2U);
  relay("out").parked = 0;
  say("taker", "delivering", "");
  EXPECT_EQ(title(), "The broker bus is away.");
  EXPECT_EQ(verdict_of(overview_, problems()).text,
            "Nothing is lost: 5 events wait in their databases. One of three relays delivers.");
}

TEST_F(Overviews, TheDocumentHasThemAll) {
  say("out", "backing_off", "Kafka at k1:9092: refused");
  const Json document = status_json(overview_, problems());
  EXPECT_EQ(document["verdict"]["kind"], "error");
  const Json& problem = document["problems"][0];
  EXPECT_EQ(problem["kind"], "broker-away");
  EXPECT_EQ(problem["where"]["relay"], "out");
  EXPECT_EQ(document["stores"][1]["relays"][0]["to"], "bus");
  EXPECT_EQ(document["totals"]["silent"], 1);
}

TEST(ProgressTest, TellsWhatIsLeftOfALongBacklogThatShrinks) {
  Progress progress;
  const WallTime start = WallTime{} + 1h;
  progress.add("out", 1'000'000, start);
  EXPECT_FALSE(progress.of("out"));
  progress.add("out", 900'000, start + 10s);
  ASSERT_TRUE(progress.of("out"));
  EXPECT_DOUBLE_EQ(progress.of("out")->per_second, 10'000);
  EXPECT_EQ(progress.of("out")->left, 90s);
  EXPECT_EQ(progress.lines().front(),
            "out catches up: 900,000 events are left, 10,000 fewer each second, done in about 1 "
            "min 30 s");
  progress.add("out", 1'100'000, start + 20s);
  EXPECT_FALSE(progress.of("out")) << "it grows";
  progress.add("out", 1'080'000, start + 30s);
  EXPECT_DOUBLE_EQ(progress.of("out")->per_second, 2'000) << "since it was longest";
  progress.add("out", 100, start + 40s);
  EXPECT_FALSE(progress.of("out")) << "short";
  progress.add("out", 90'000, start);
  EXPECT_FALSE(progress.of("out")) << "the clock was set back";
}

}  // namespace
}  // namespace dovetail::app
