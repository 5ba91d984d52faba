// What every sink of a broker must survive: a relay carries a flow of events into it while the
// broker is killed, frozen, cut off, slow or full. Soon after the last fault events pass again. At
// the end nothing is lost, no event of a key has arrived for the first time after a later one, and
// nothing is parked.
//
// An adapter implements OutageUnderTest and instantiates the suite:
//
//   INSTANTIATE_TEST_SUITE_P(Redis, OutageSuite, testing::Values(OutageCase{"redis", make_it}),
//   case_name<OutageCase>);
//
// With DOVETAIL_CHAOS in the environment, each outage happens more often and lasts longer.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/relay/sink.h"
#include "core/relay/source.h"
#include "kit/claims.h"
#include "proofs/brokers/outage.h"
#include "servers/servers.h"
#include "servers/tcp_proxy.h"

namespace dovetail::conformance {

struct OutageAbilities {
  bool durable = true;                // confirmed events survive a SIGKILL of the server
  bool can_kill = true;               // server() can be killed, restarted and frozen
  bool can_block = false;             // block() does something
  bool can_block_for_moments = true;  // and takes effect at once
  // For the source: whether events of a key are applied in order, also after a cut, and after
  // another consumer has taken over.
  bool source_keeps_order = true;
  bool takeover_keeps_order = false;
};

// A broker that the suite may break. One for all tests of a case; each calls begin().
class OutageUnderTest {
 public:
  virtual ~OutageUnderTest() = default;
  virtual OutageAbilities abilities() const { return {}; }
  // Called only if can_kill.
  virtual servers::Started& server() = 0;
  virtual int port() { return server().server().port(); }
  // A proxy before the server. A broker that tells clients where to connect needs a fixed
  // port.
  virtual std::unique_ptr<servers::TcpProxy> make_proxy() {
    return std::make_unique<servers::TcpProxy>(port());
  }

  // From now on events of the topic "orders" go to a new and empty topic, queue or stream of that
  // name, which exists when this returns.
  virtual void begin(const std::string& name) = 0;
  // `port`: port(), or that of a proxy from make_proxy().
  virtual std::unique_ptr<Sink> make_sink(int port) = 0;
  // The stored events, read without the proxy, in order along each key.
  virtual std::vector<StoredEvent> stored() = 0;
  // Makes the broker refuse events for now, as with a full disk or memory.
  virtual void block() {}
  virtual void unblock() {}

  // A consumer of the same place with that name; all are in one group. Pending events of a dead
  // consumer must reach another one within a few seconds. Null: there is no source.
  virtual std::unique_ptr<Source> make_source(int, const std::string&) { return nullptr; }
};

struct OutageCase {
  std::string name;
  std::unique_ptr<OutageUnderTest> (*make)();
};

// A process and all its descendants.
inline std::vector<int> processes_of(int first) {
  std::vector<int> found{first};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string folder = "/proc/" + std::to_string(found[i]) + "/task";
    std::error_code gone;
    for (const auto& task : std::filesystem::directory_iterator(folder, gone)) {
      std::ifstream children(task.path() / "children");
      for (int child = 0; children >> child;) found.push_back(child);
    }
  }
  return found;
}

// The broker of a case lives until the process ends, because starting one may take long.
class OutageFixture : public testing::TestWithParam<OutageCase> {
 protected:
  void SetUp() override {
    std::unique_ptr<OutageUnderTest>& kept = brokers()[GetParam().name];
    if (kept == nullptr) kept = GetParam().make();
    broker_ = kept.get();
    ASSERT_NE(broker_, nullptr) << "this broker could not be started";
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    broker_->begin(name.substr(0, name.find('/')));
  }

  static std::uint64_t times(std::uint64_t short_form, std::uint64_t long_form) {
    return live::is_long() ? long_form : short_form;
  }
  // Stops the whole server for a while, like a machine that stalls.
  void freeze(milliseconds time) {
    const std::vector<int> processes = processes_of(broker_->server().pid());
    ASSERT_NE(processes.front(), 0);
    for (const int one : processes) ::kill(one, SIGSTOP);
    std::this_thread::sleep_for(time);
    for (const int one : processes) ::kill(one, SIGCONT);
  }
  void kill_and_start_again() {
    ASSERT_TRUE(broker_->server().kill());
    std::this_thread::sleep_for(milliseconds(100));
    ASSERT_TRUE(broker_->server().again());
  }
  // The ways in which a connection ends without notice, one after the other.
  void disturb(servers::TcpProxy& proxy, std::uint64_t turn) {
    const std::uint64_t losses = proxy.counters().losses;
    switch (turn % 4) {
      case 0:
        proxy.cut();
        break;
      case 1:  // the next answer, whatever it is
      case 2:  // in the middle of confirmations
        proxy.lose_answers(turn % 4 == 1 ? 0 : 50 + turn * 37 % 3000);
        ASSERT_TRUE(eventually([&] { return proxy.counters().losses > losses; }));
        break;
      default:
        proxy.refuse(true);
        proxy.cut();
        std::this_thread::sleep_for(milliseconds(100));
        proxy.refuse(false);
        break;
    }
  }

  OutageUnderTest* broker_ = nullptr;

 private:
  static std::map<std::string, std::unique_ptr<OutageUnderTest>>& brokers() {
    static std::map<std::string, std::unique_ptr<OutageUnderTest>> kept;
    return kept;
  }
};

class OutageSuite : public OutageFixture {
 protected:
  // After the last fault, new events must pass. Ends the flow and judges the
  // result.
  void finish(Flow& flow, const std::string& what) {
    const bool resumed = flow.goes_on();
    const bool settled = flow.finish() && resumed;
    const Verdict verdict = flow.ledger.judge(broker_->stored());
    const RelayMetrics& metrics = flow.relay().metrics;
    live::claim(settled && verdict.lost == 0 && verdict.inverted == 0 && verdict.changed == 0 &&
                    verdict.unknown == 0 && flow.parked() == 0,
                "%s, %s: %lu events, %lu lost, %lu inverted, %lu changed, %lu unknown, %lu parked, "
                "%lu duplicates, %lu reconnects%s",
                GetParam().name.c_str(), what.c_str(), verdict.published, verdict.lost,
                verdict.inverted, verdict.changed, verdict.unknown, flow.parked(),
                verdict.duplicates, metrics.sink_errors.load(),
                settled ? "" : (resumed ? "; NOT everything was settled" : "; it did NOT go on"));
    if (HasFailure()) std::printf("%s", flow.relay().log().c_str());
  }
};

TEST_P(OutageSuite, AServerKilledAndStartedAgainUnderLoad) {
  if (!broker_->abilities().can_kill || !broker_->abilities().durable)
    GTEST_SKIP() << "nothing outlives this server";
  Flow flow(broker_->make_sink(broker_->port()), outage_options(seconds(10)));
  // The short form kills a server that starts slowly only once.
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t kills = 0;
  while (kills < times(2, 10)) {
    ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
    kill_and_start_again();
    ++kills;
    if (!live::is_long() && std::chrono::steady_clock::now() - start > seconds(5)) break;
  }
  finish(flow, std::to_string(kills) + " times SIGKILL");
}

TEST_P(OutageSuite, AServerFrozenUnderLoad) {
  if (!broker_->abilities().can_kill) GTEST_SKIP() << "this server cannot be frozen";
  // The relay drops the connection long before the server wakes and reads what was sent on it.
  Flow flow(broker_->make_sink(broker_->port()), outage_options(seconds(live::is_long() ? 5 : 1)));
  for (std::uint64_t i = 0; i < times(1, 3); ++i) {
    ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
    freeze(seconds(times(3, 20)));
  }
  finish(flow, "SIGSTOP for " + std::to_string(times(3, 20)) + " s");
}

TEST_P(OutageSuite, AServerFrozenForLessThanTheRelayWaits) {
  if (!broker_->abilities().can_kill) GTEST_SKIP() << "this server cannot be frozen";
  Flow flow(broker_->make_sink(broker_->port()), outage_options());
  for (std::uint64_t i = 0; i < times(1, 10); ++i) {
    ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
    freeze(milliseconds(times(500, 2000)));
  }
  finish(flow, "short SIGSTOP");
}

TEST_P(OutageSuite, ConnectionsCutInTheMiddleOfConfirmations) {
  const auto proxy = broker_->make_proxy();
  Flow flow(broker_->make_sink(proxy->port()), outage_options(seconds(10)));
  const std::uint64_t cuts = times(12, 200);
  for (std::uint64_t i = 0; i < cuts; ++i) {
    ASSERT_TRUE(flow.goes_on(i % 50)) << flow.relay().log();
    disturb(*proxy, i);
  }
  finish(flow, std::to_string(cuts) + " cuts, " + std::to_string(proxy->counters().losses) +
                   " times answers lost");
}

TEST_P(OutageSuite, AConnectionThatHangs) {
  const auto proxy = broker_->make_proxy();
  Flow flow(broker_->make_sink(proxy->port()), outage_options(seconds(1)));
  for (std::uint64_t i = 0; i < times(1, 10); ++i) {
    ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
    proxy->stall();
    std::this_thread::sleep_for(seconds(2));
    proxy->flow();
  }
  finish(flow, "2 s without a byte");
}

TEST_P(OutageSuite, ASlowLine) {
  const auto proxy = broker_->make_proxy();
  Flow flow(broker_->make_sink(proxy->port()), outage_options());
  ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
  proxy->slow(100'000);
  std::this_thread::sleep_for(seconds(times(2, 30)));
  proxy->slow(0);
  finish(flow, "100 KB/s for " + std::to_string(times(2, 30)) + " s");
}

TEST_P(OutageSuite, ABrokerThatIsFull) {
  if (!broker_->abilities().can_block) GTEST_SKIP() << "this broker cannot be made full";
  Flow flow(broker_->make_sink(broker_->port()), outage_options(seconds(live::is_long() ? 10 : 2)));
  for (std::uint64_t i = 0; i < times(1, 5); ++i) {
    ASSERT_TRUE(flow.goes_on()) << flow.relay().log();
    broker_->block();
    std::this_thread::sleep_for(seconds(times(2, 20)));
    broker_->unblock();
  }
  // Sometimes a single event is refused, and the next one is not.
  const bool flickers = broker_->abilities().can_block_for_moments;
  const auto end = std::chrono::steady_clock::now() + seconds(flickers ? times(1, 10) : 0);
  while (std::chrono::steady_clock::now() < end) {
    broker_->block();
    broker_->unblock();
    std::this_thread::sleep_for(milliseconds(5));
  }
  finish(flow,
         "full for " + std::to_string(times(2, 20)) + " s" + (flickers ? ", and for moments" : ""));
}

}  // namespace dovetail::conformance
