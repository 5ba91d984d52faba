// The whole path on real servers: orders in PostgreSQL go through `dovetail run` into a broker,
// and from there into the inbox of another database. Whatever is killed, cut off or stopped on the
// way, at the end the books of both services agree: nothing lost, nothing twice, every product in
// order.
#include "proofs/brokers/road.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kit/claims.h"
#include "kit/dying.h"
#include "postgres/testing/test_database.h"
#include "proofs/inbox/inbox_stage.h"
#include "proofs/inbox/postgres_stock.h"
#include "servers/servers.h"
#include "servers/tcp_proxy.h"

namespace dovetail::live {
namespace {

using namespace std::chrono_literals;
using shop::Doom;
using shop::InboxStage;
using shop::Process;

// The servers of one broker's tests, which break them; started once.
class RoadServers {
 public:
  explicit RoadServers(const std::string& broker)
      : folder_(make_folder()),
        postgres(std::make_unique<servers::Started>("postgres", folder_)),
        bus(std::make_unique<servers::Started>(broker, folder_)) {}
  RoadServers(const RoadServers&) = delete;
  RoadServers& operator=(const RoadServers&) = delete;
  ~RoadServers() {
    bus.reset();
    postgres.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string missing() const {
    return postgres->server().conninfo.empty() ? postgres->server().missing : bus->server().missing;
  }

 private:
  static std::string make_folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "dovetail-road-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    return pattern;
  }
  std::string folder_;

 public:
  std::unique_ptr<servers::Started> postgres;
  std::unique_ptr<servers::Started> bus;
};

std::map<std::string, std::unique_ptr<RoadServers>>& all_servers() {
  static std::map<std::string, std::unique_ptr<RoadServers>> servers;
  return servers;
}

class StopServers final : public testing::Environment {
 public:
  void TearDown() override { all_servers().clear(); }
};
[[maybe_unused]] const testing::Environment* const stop_servers =
    testing::AddGlobalTestEnvironment(new StopServers);

class InboxRoad : public testing::TestWithParam<RoadBroker> {
 protected:
  void SetUp() override {
    auto& servers = all_servers()[GetParam().name];
    if (servers == nullptr) servers = std::make_unique<RoadServers>(GetParam().server);
    servers_ = servers.get();
    if (const std::string missing = servers_->missing(); !missing.empty()) GTEST_SKIP() << missing;
    static int count = 0;
    const std::string number = std::to_string(++count);
    stores_ = GetParam().stores(bus());
    stage_.emplace(database("orders" + number), database("stock" + number));
    if (is_rabbitmq()) stores_.topic += number;
    group_ = "inventory" + number;
    write_config();
  }
  void TearDown() override {
    for (Process& process : relays_) process.kill();
    for (Process& process : consumers_) process.kill();
  }

  bool is_rabbitmq() const { return GetParam().name == std::string("rabbitmq"); }
  const servers::Server& bus() const { return servers_->bus->server(); }
  std::string database(const std::string& name) const {
    const std::string& conninfo = servers_->postgres->server().conninfo;
    auto admin = postgres::Connection::open(conninfo);
    EXPECT_TRUE(admin);
    if (admin) postgres::must(*admin, "CREATE DATABASE " + name);
    return servers::with_database(conninfo, name);
  }
  void write_config() const {
    std::ofstream(stage_->file("dovetail.toml"))
        << "[store.orders]\nurl = \"postgres:" << stage_->orders << "\"\n[store.bus]\n"
        << stores_.out
        << "[[relay]]\nname = \"orders-to-bus\"\nfrom = \"orders\"\nto = \"bus\"\ntopic = \""
        << stores_.topic
        << "\"\nlease = \"2s\"\nlanes = 2\nretry_base = \"10ms\"\nreconnect_cap = \"200ms\"\n"
           "[log]\nformat = \"json\"\n";
  }

  // Where a consumer reads; `port` 0: from the broker directly.
  std::string from(int port = 0) const {
    const std::string at = port == 0 ? bus().field("port") : std::to_string(port);
    return is_rabbitmq() ? "rabbitmq:" + at + ":" + stores_.topic
                         : "kafka:" + at + ":" + stores_.topic + ":" + group_;
  }
  Process start_relay(std::size_t number) const {
    return Process::start(
        {DOVETAIL_PROGRAM, "run", "orders-to-bus", "--config", stage_->file("dovetail.toml")},
        stage_->file("relay" + std::to_string(number) + ".log"));
  }
  // As in applications: one process reads, and others stand by.
  Process start_consumer(std::size_t number, int port = 0) const {
    return stage_->start_from(from(port), {"--as", "consumer"}, log_of(number));
  }
  // Built from its ports, so that the broker shares its topic among all of them.
  Process start_member(std::size_t number, std::vector<std::string> words = {}) const {
    words.insert(words.begin(), {"--batch", "50"});
    return stage_->start_from(from(), words, log_of(number));
  }
  static std::string log_of(std::size_t number) {
    return "consumer" + std::to_string(number) + ".log";
  }
  std::jthread open(int port = 0) {
    for (std::size_t i = 0; i < 2; ++i) consumers_.push_back(start_consumer(i, port));
    return place_orders();
  }
  std::jthread open_for_members(std::size_t members) {
    for (std::size_t i = 0; i < members; ++i) consumers_.push_back(start_member(i));
    return place_orders();
  }
  std::jthread place_orders() {
    while (relays_.size() < 2) relays_.push_back(start_relay(relays_.size()));
    shop::OrderServiceOptions service;
    service.orders = 1'000'000'000;
    service.products = 24;
    service.pause = 2ms;
    std::jthread customers = stage_->place_orders(service);
    stage_->wait_until("the road is open", [&] { return applied() > 0; });
    return customers;
  }
  std::int64_t applied() const { return shop::count_postgres_movements(stage_->stock); }
  void wait_for_progress() const {
    const std::int64_t before = applied();
    stage_->wait_until("it goes on", [&] { return applied() > before + 20; });
  }
  void finish() {
    if (!stage_->wait_until("all is applied", [&] {
          return applied() >= shop::count_postgres_orders(stage_->orders);
        }))
      ADD_FAILURE() << "the broker says:\n" << last_words();
    for (auto* const processes : {&relays_, &consumers_}) {
      for (Process& process : *processes) process.send(SIGTERM);
      for (Process& process : *processes) EXPECT_EQ(process.wait(60s), 0);
    }
  }
  std::string name() const { return GetParam().name; }
  // About its queues, and how it found them after a crash.
  std::string last_words() const {
    std::ifstream log(bus().field("home") + "/log");
    std::string words;
    for (std::string line; std::getline(log, line);)
      if (line.find("ueue") != std::string::npos || line.find("ecover") != std::string::npos)
        words += line + "\n";
    return words;
  }

  RoadServers* servers_ = nullptr;
  RoadStores stores_;
  std::optional<InboxStage> stage_;
  std::string group_;
  std::vector<Process> relays_;
  std::vector<Process> consumers_;
  std::mt19937_64 random_{7};
};

TEST_P(InboxRoad, EveryOrderMovesTheStockOnceAndInOrderThroughKills) {
  const int kills = is_long() ? 60 : 4;
  const int crashes = is_long() ? 4 : 1;
  {
    const std::jthread customers = open();
    for (int turn = 0; turn < kills; ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200 + random_() % 1000));
      const auto number = static_cast<std::size_t>(turn / 2 % 2);
      auto& victims = turn % 2 == 0 ? relays_ : consumers_;
      EXPECT_TRUE(victims[number].running()) << "ended by itself";
      victims[number].kill();
      victims[number] = turn % 2 == 0 ? start_relay(number) : start_consumer(number);
      if (turn % (kills / crashes) == 1) {
        ASSERT_TRUE(servers_->bus->crash());
        wait_for_progress();
        if (!is_long()) continue;
        ASSERT_TRUE(servers_->postgres->crash());
        wait_for_progress();
      }
    }
  }
  finish();
  claim_once(stage_->judge(), name() + ": " + std::to_string(kills) +
                                  " kills of relays and consumers, " + std::to_string(crashes) +
                                  " crashes of the broker" +
                                  (is_long() ? " and of PostgreSQL" : ""));
}

// Not in every test run: they mostly wait.
class InboxRoadLong : public InboxRoad {};

// Longer than the broker waits for a heartbeat.
TEST_P(InboxRoadLong, AConsumerThatLosesItsMachineForAWhileDoesNoHarm) {
  const int pauses = is_long() ? 10 : 1;
  {
    const std::jthread customers = open();
    for (int pause = 0; pause < pauses; ++pause) {
      const auto number = static_cast<std::size_t>(pause % 2);
      consumers_[number].send(SIGSTOP);
      std::this_thread::sleep_for(is_rabbitmq() ? 1s : 5s);
      consumers_[number].send(SIGCONT);
      wait_for_progress();
    }
  }
  finish();
  claim_once(stage_->judge(), name() + ": consumers stopped for longer than the broker waits, " +
                                  std::to_string(pauses) + " times");
}

TEST_P(InboxRoad, ALinkThatIsCutEveryTwoSecondsDoesNoHarm) {
  const int cuts = is_long() ? 60 : 2;
  servers::TcpProxy link(std::stoi(bus().field(is_rabbitmq() ? "port" : "behind_port")),
                         is_rabbitmq() ? 0 : std::stoi(bus().field("proxy_port")));
  {
    const std::jthread customers = open(link.port());
    for (int cut = 0; cut < cuts; ++cut) {
      std::this_thread::sleep_for(2s);
      link.cut();
    }
  }
  finish();
  claim_once(stage_->judge(), name() + ": the link of the consumers cut every 2 s, " +
                                  std::to_string(cuts) + " times");
}

// Only Kafka shares a topic among members and takes it away again.
class InboxRebalance : public InboxRoad {};
class InboxRebalanceLong : public InboxRoad {};

TEST_P(InboxRebalanceLong, MembersThatComeAndGoDoNoHarm) {
  const int changes = is_long() ? 40 : 3;
  {
    const std::jthread customers = open_for_members(2);
    for (int change = 0; change < changes; ++change) {
      std::this_thread::sleep_for(3s);
      if (change % 2 == 0) {
        consumers_.push_back(start_member(2));
        continue;
      }
      // Sometimes with a clean close, sometimes without.
      if (change % 4 == 1) {
        consumers_.back().send(SIGTERM);
        EXPECT_EQ(consumers_.back().wait(60s), 0);
      }
      consumers_.pop_back();
    }
  }
  finish();
  claim_once(stage_->judge(),
             "kafka: members added and removed every 3 s, " + std::to_string(changes) + " times");
}

TEST_P(InboxRebalance, KilledWhilePartitionsAreTakenAwayNothingIsLostOrDoubled) {
  const int kills = is_long() ? 50 : 2;
  {
    const std::jthread customers = open_for_members(1);
    for (int kill = 0; kill < kills; ++kill) {
      // The one that will die gets a part, and loses it to the next member.
      const std::size_t before = stage_->lines("started", log_of(1));
      Process doomed = start_member(1, {"--die", kill % 2 == 0 ? "revoking" : "revoked"});
      Process third;
      stage_->wait_until("it dies", [&] {
        if (!third.valid() && stage_->lines("started", log_of(1)) > before) third = start_member(2);
        return !doomed.running();
      });
      EXPECT_EQ(doomed.wait(0ms), Doom::kExitCode);
    }
  }
  finish();
  claim_once(stage_->judge(),
             "I8, killed " + std::to_string(kills) + " times while partitions were taken away");
}

std::vector<RoadBroker> chosen(const std::vector<std::string>& names) {
  std::vector<RoadBroker> brokers;
  for (const RoadBroker& broker : road_brokers())
    if (std::find(names.begin(), names.end(), broker.name) != names.end())
      brokers.push_back(broker);
  return brokers;
}

std::string name_of(const testing::TestParamInfo<RoadBroker>& one) { return one.param.name; }

INSTANTIATE_TEST_SUITE_P(Broker, InboxRoad, testing::ValuesIn(chosen({"kafka", "rabbitmq"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Broker, InboxRoadLong, testing::ValuesIn(chosen({"kafka", "rabbitmq"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Broker, InboxRebalance, testing::ValuesIn(chosen({"kafka"})), name_of);
INSTANTIATE_TEST_SUITE_P(Broker, InboxRebalanceLong, testing::ValuesIn(chosen({"kafka"})), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(InboxRoad);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(InboxRoadLong);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(InboxRebalance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(InboxRebalanceLong);

}  // namespace
}  // namespace dovetail::live
