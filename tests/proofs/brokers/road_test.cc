// The whole path on real servers: orders in SQLite go through `dovetail run` into a broker, through
// another `dovetail run` into the inventory's mailbox, and through a consumer into the stock.
// Relays, consumer and broker are killed on the way. At the end the books of both services must
// agree: nothing lost, nothing twice, every product in order.
#include "proofs/brokers/road.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "demo/books.h"
#include "demo/process.h"
#include "demo/shop.h"
#include "host/host.h"
#include "kit/claims.h"
#include "servers/servers.h"
#include "sqlite/operate/admin.h"

namespace dovetail::live {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using shop::Process;

constexpr std::chrono::milliseconds kLease = 2s;

struct Plan {
  std::int64_t orders = is_long() ? 100'000 : 3'000;
  int kills = is_long() ? 60 : 6;
  int crashes = is_long() ? 5 : 1;  // of the broker
  int pauses = is_long() ? 5 : 1;   // of the relay that reads it, for longer than its lease
  std::chrono::microseconds pause = is_long() ? 0us : 500us;
  std::chrono::seconds patience = is_long() ? 1800s : 240s;
};

// A folder for the books and the broker's server; both are removed at the end.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "dovetail_road_XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    if (!testing::Test::HasFailure()) fs::remove_all(path_);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// A process that may die at any time.
struct Mortal {
  std::string name;
  std::vector<std::string> command;
  Process process{};
  int kills = 0;
  std::size_t lines_before = 0;  // of its log, at its last start
};

class Road {
 public:
  Road(const RoadBroker& broker, const Folder& folder, const servers::Server& server)
      : broker_(broker), folder_(folder) {
    std::ofstream(file("dovetail.toml")) << config_text(broker.stores(server));
    for (const char* relay : {"orders-to-bus", "bus-to-inventory", "bus-to-inventory"}) {
      mortals_.push_back({relay + std::string("-") + std::to_string(mortals_.size()),
                          {DOVETAIL_PROGRAM, "run", relay, "--config", file("dovetail.toml")}});
    }
    mortals_.push_back(
        {"consumer",
         {DOVETAIL_CRASH_PROGRAM, "--role", "consumer", "--dir", folder.path().string()}});
  }

  void open() {
    ASSERT_TRUE(shop::open_order_books(file("orders.db")));
    ASSERT_TRUE(shop::open_stock_books(file("inventory.db")));
    // The readers first: with some brokers they create streams and queues.
    for (std::size_t i = mortals_.size(); i-- > 1;) start(mortals_[i]);
    const auto end = std::chrono::steady_clock::now() + 90s;
    while (!is_read() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(50ms);
    ASSERT_TRUE(is_read()) << "no relay reads the broker; see " << folder_.path();
    start(mortals_[0]);
  }

  void place_orders() {
    shop::OrderServiceOptions service;
    service.database = file("orders.db");
    service.orders = plan_.orders + plan_.orders / 9;  // every tenth order rolls back
    service.products = 24;
    service.pause = plan_.pause;
    writer_ = std::jthread([service, this] {
      const Status placed = shop::run_order_service(service);
      EXPECT_TRUE(placed) << (placed ? "" : placed.error().text);
      placed_ = true;
    });
  }

  // Kills one after another while orders are placed, and a few times after that.
  void disturb(const std::function<bool()>& crash_broker) {
    const int every = plan_.kills / (plan_.crashes + 1);
    const int pause_every = plan_.kills / plan_.pauses;
    for (int turn = 1; turn <= plan_.kills; ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200 + random_() % 1000));
      if (turn % every == 0 && crashes_ < plan_.crashes && crash_broker) {
        ASSERT_TRUE(crash_broker()) << "the broker did not come back";
        ++crashes_;
      }
      if (turn % pause_every == 1 && pauses_ < plan_.pauses) pause_reader();
      Mortal& victim = mortals_[static_cast<std::size_t>(turn) % mortals_.size()];
      EXPECT_TRUE(victim.process.running()) << victim.name << " ended by itself";
      victim.process.kill();
      ++victim.kills;
      start(victim);
    }
  }

  // Like a process that loses its machine for a while: the other one takes over; when this one
  // continues, with unacknowledged messages, it must do no harm.
  void pause_reader() {
    const auto status = sqlite::status(file("inventory.db"), system_clock());
    ASSERT_TRUE(status) << status.error().text;
    for (const RelayStatus& reader : status->relays) {
      for (const Mortal& mortal : mortals_) {
        const std::string label = ":" + std::to_string(mortal.process.pid()) + "#";
        if (reader.source != SourceKind::broker || reader.owner.find(label) == std::string::npos)
          continue;
        mortal.process.send(SIGSTOP);
        std::this_thread::sleep_for(kLease + kLease / 2);
        mortal.process.send(SIGCONT);
        ++pauses_;
      }
    }
  }

  void wait_until_applied() {
    const auto end = std::chrono::steady_clock::now() + plan_.patience;
    while (std::chrono::steady_clock::now() < end) {
      if (placed_ &&
          shop::count_movements(file("inventory.db")) >= shop::count_orders(file("orders.db"))) {
        return;
      }
      std::this_thread::sleep_for(100ms);
    }
  }

  void stop() {
    // A relay that is told to stop before it has begun just ends with its exit code.
    const auto end = std::chrono::steady_clock::now() + 60s;
    for (const Mortal& mortal : mortals_) {
      if (mortal.name == "consumer") continue;
      while (notices(mortal) == mortal.lines_before && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(20ms);
    }
    for (Mortal& mortal : mortals_) mortal.process.send(SIGTERM);
    for (Mortal& mortal : mortals_) {
      EXPECT_EQ(mortal.process.wait(60s), 0) << mortal.name << " did not stop cleanly";
    }
  }

  void judge(std::chrono::steady_clock::time_point started) {
    const auto books = shop::read_books(file("orders.db"), file("inventory.db"));
    ASSERT_TRUE(books) << books.error().text;
    const shop::Verdict verdict = shop::compare_books(books->orders, books->movements);
    claim(verdict.ok() && books->quantity_ordered == books->stock_taken &&
              std::ssize(books->orders) >= plan_.orders,
          "%s: %zu orders through the broker, %d kills of relays and consumer, %d pauses of the "
          "reader, %d crashes of the broker: %zu lost, %zu double effects, %zu out of order, %zu "
          "made up; %.0f s",
          broker_.name, books->orders.size(), kills(), pauses_, crashes_, verdict.lost,
          verdict.doubled, verdict.reordered, verdict.phantom,
          Seconds(std::chrono::steady_clock::now() - started).count());
    for (const std::string& example : verdict.examples) ADD_FAILURE() << example;
    for (const char* store : {"orders.db", "inventory.db"}) {
      const auto parked = sqlite::list_parked(file(store), {});
      ASSERT_TRUE(parked) << parked.error().text;
      EXPECT_TRUE(parked->empty()) << store << ": " << parked->front().reason;
    }
  }

 private:
  std::string file(const std::string& name) const { return folder_.file(name); }
  int kills() const {
    int sum = 0;
    for (const Mortal& mortal : mortals_) sum += mortal.kills;
    return sum;
  }
  bool is_read() const {
    for (const Mortal& mortal : mortals_) {
      std::ifstream log(file(mortal.name + ".log"));
      for (std::string line; std::getline(log, line);) {
        if (line.find("\"event\":\"started\"") != std::string::npos) return true;
      }
    }
    return false;
  }
  // Lines that a relay writes after its start.
  std::size_t notices(const Mortal& mortal) const {
    std::ifstream log(file(mortal.name + ".log"));
    std::size_t count = 0;
    for (std::string line; std::getline(log, line);)
      count += static_cast<std::size_t>(line.find("\"event\":") != std::string::npos);
    return count;
  }
  void start(Mortal& mortal) {
    mortal.lines_before = notices(mortal);
    mortal.process = Process::start(mortal.command, file(mortal.name + ".log"));
  }

  static std::string config_text(const RoadStores& stores) {
    constexpr const char* kRelay =
        "retry_base = \"10ms\"\nreconnect_cap = \"200ms\"\nwindow_events = "
        "1000\nbatch_events = 100\n";
    const std::string lease = "lease = \"" + std::to_string(kLease.count()) + "ms\"\n";
    return "[store.orders]\nurl = \"sqlite:orders.db\"\n[store.inventory]\n"
           "url = \"sqlite:inventory.db\"\n[store.bus-out]\n" +
           stores.out + "[store.bus-in]\nread = [\"" + stores.topic + "\"]\n" + stores.in +
           "[[relay]]\nname = \"orders-to-bus\"\nfrom = \"orders\"\nto = \"bus-out\"\ntopic = "
           "\"" +
           stores.topic + "\"\n" + lease + kRelay +
           "[[relay]]\nname = \"bus-to-inventory\"\nfrom = \"bus-in\"\nto = \"inventory\"\n" +
           lease + kRelay + "[log]\nformat = \"json\"\n";
  }

  const RoadBroker& broker_;
  const Folder& folder_;
  Plan plan_;
  std::vector<Mortal> mortals_;
  std::mt19937_64 random_{7};
  int crashes_ = 0;
  int pauses_ = 0;
  std::atomic<bool> placed_{false};
  std::jthread writer_;
};

class BrokersRoad : public testing::TestWithParam<RoadBroker> {};

TEST_P(BrokersRoad, EveryOrderMovesTheStockOnceAndInOrderThroughKills) {
  const auto started_at = std::chrono::steady_clock::now();
  const RoadBroker& broker = GetParam();
  const Folder folder;
  std::optional<servers::Started> started;
  servers::Server server;
  if (*broker.server != '\0') {
    started.emplace(broker.server, folder.file("servers"));
    server = started->server();
    if (server.conninfo.empty()) GTEST_SKIP() << server.missing;
  }
  Road road(broker, folder, server);
  road.open();
  road.place_orders();
  road.disturb(started ? std::function<bool()>([&] { return started->crash(); }) : nullptr);
  road.wait_until_applied();
  road.stop();
  road.judge(started_at);
}

INSTANTIATE_TEST_SUITE_P(Broker, BrokersRoad, testing::ValuesIn(road_brokers()),
                         [](const auto& one) { return std::string(one.param.name); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BrokersRoad);

}  // namespace
}  // namespace dovetail::live
