#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "dovetail/relay.h"
#include "sqlite/testing/test_file.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;

class EmbeddedRelayTest : public testing::Test {
 protected:
  EmbeddedRelayTest() {
    options_.config = "[store.orders]\nurl = \"sqlite:" + orders_.path +
                      "\"\n[store.inventory]\nurl = \"sqlite:" + inventory_.path +
                      "\"\n[[relay]]\nname = \"shop\"\nfrom = \"orders\"\nto = \"inventory\"\n"
                      "lease = \"1s\"\n";
    options_.file = "shop.toml";
    options_.log = [this](const LogLine& line) {
      const std::lock_guard lock(mutex_);
      told_.insert(std::string(line.event));
      subjects_.insert(std::string(line.subject));
    };
  }
  std::unique_ptr<EmbeddedRelay> open() {
    auto relay = EmbeddedRelay::open(options_);
    EXPECT_TRUE(relay) << (relay ? "" : relay.error().text);
    return relay ? std::move(*relay) : nullptr;
  }
  std::string refusal() {
    const auto relay = EmbeddedRelay::open(options_);
    EXPECT_FALSE(relay);
    EXPECT_EQ(relay ? Errc::stopped : relay.error().code, Errc::rejected);
    return relay ? "" : relay.error().text;
  }
  std::int64_t arrived() { return target_.number("SELECT count(*) FROM dovetail_mailbox"); }
  bool was_told(const std::string& event) {
    const std::lock_guard lock(mutex_);
    return told_.contains(event);
  }

  sqlite::TestFile orders_;
  sqlite::TestFile inventory_;
  sqlite::Application service_{orders_.path};
  sqlite::Application target_{inventory_.path};
  EmbeddedRelayOptions options_;
  std::mutex mutex_;
  std::set<std::string> told_;
  std::set<std::string> subjects_;
};

TEST_F(EmbeddedRelayTest, DeliversInOrderWhatTheServicePublishes) {
  auto relay = open();
  std::jthread thread([&](const std::stop_token& stop) { EXPECT_TRUE(relay->run(stop)); });
  for (int i = 0; i < 100; ++i) service_.publish_one("k", std::to_string(i));
  EXPECT_TRUE(eventually([&] { return arrived() == 100; }));
  thread.request_stop();
  thread.join();
  EXPECT_EQ(target_.number("SELECT count(*) FROM dovetail_mailbox WHERE "
                           "CAST(CAST(payload AS TEXT) AS INTEGER) = seq - 1"),
            100);
  const RelayCounts counts = relay->counts();
  EXPECT_EQ(counts.delivered, 100U);
  EXPECT_EQ(counts.duplicates, 0U);
  EXPECT_EQ(counts.in_flight, 0U);
  EXPECT_GE(counts.latency_p99, counts.latency_p50);
  EXPECT_TRUE(was_told("started"));
  EXPECT_TRUE(was_told("drained"));
  EXPECT_EQ(subjects_, std::set<std::string>{"shop"});
}

TEST_F(EmbeddedRelayTest, OfTwoOfOneNameOneStandsByAndTakesOver) {
  auto first = open();
  auto second = open();
  std::jthread one([&](const std::stop_token& stop) { EXPECT_TRUE(first->run(stop)); });
  service_.publish_one("k");
  ASSERT_TRUE(eventually([&] { return arrived() == 1; }));
  std::jthread other([&](const std::stop_token& stop) { EXPECT_TRUE(second->run(stop)); });
  ASSERT_TRUE(eventually([&] { return was_told("standby"); }));
  one.request_stop();
  one.join();
  service_.publish_one("k");
  EXPECT_TRUE(eventually([&] { return arrived() == 2; }));
  other.request_stop();
  other.join();
  EXPECT_EQ(first->counts().delivered, 1U);
  EXPECT_EQ(second->counts().delivered, 1U);
}

TEST_F(EmbeddedRelayTest, CountsAreToldWhileItRunsAndAtTheEndAndNotLater) {
  std::atomic<std::uint64_t> delivered{0};
  std::atomic<int> calls{0};
  options_.metrics = [&](const RelayCounts& counts) {
    delivered = counts.delivered;
    ++calls;
  };
  options_.metrics_every = 1ms;
  auto relay = open();
  std::jthread thread([&](const std::stop_token& stop) { EXPECT_TRUE(relay->run(stop)); });
  ASSERT_TRUE(eventually([&] { return calls.load() > 3; }));
  service_.publish_one("k");
  ASSERT_TRUE(eventually([&] { return arrived() == 1; }));
  thread.request_stop();
  thread.join();
  EXPECT_EQ(delivered, 1U);
  const int last = calls;
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls, last);
}

TEST_F(EmbeddedRelayTest, RetentionIsKept) {
  options_.config += "[retention]\ndelivered = \"1s\"\nevery = \"1s\"\n";
  service_.publish_one("k");
  auto relay = open();
  std::jthread thread([&](const std::stop_token& stop) { EXPECT_TRUE(relay->run(stop)); });
  EXPECT_TRUE(
      eventually([&] { return service_.number("SELECT count(*) FROM dovetail_outbox") == 0; }));
  EXPECT_TRUE(eventually([&] { return was_told("pruned"); }));
}

TEST_F(EmbeddedRelayTest, WhatIsWrongIsRefusedBeforeItRuns) {
  const std::string good = options_.config;
  options_.name = "shpo";
  EXPECT_NE(refusal().find("no relay or consumer is called \"shpo\"; there are: shop"),
            std::string::npos);
  options_.name = "shop";
  options_.config = good + "lanse = 3\n";
  EXPECT_NE(refusal().find("shop.toml:"), std::string::npos) << "it says where";
  options_.config = good + "[[relay]]\nname = \"two\"\nfrom = \"orders\"\nto = \"inventory\"\n";
  options_.name.clear();
  EXPECT_NE(refusal().find("shop, two"), std::string::npos);
  options_.config = "[store.orders]\nurl = \"sqlite:x.db\"\n";
  EXPECT_NE(refusal().find("no [[relay]]"), std::string::npos);
  options_.config.clear();
  options_.file.clear();
  EXPECT_NE(refusal().find("neither"), std::string::npos);
}

TEST_F(EmbeddedRelayTest, ItRunsOnce) {
  auto relay = open();
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_TRUE(relay->run(stopped.get_token()));
  const Status again = relay->run(stopped.get_token());
  EXPECT_EQ(again ? Errc::stopped : again.error().code, Errc::rejected);
}

}  // namespace
}  // namespace dovetail
