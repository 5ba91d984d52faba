// Kills real relays and consumers at random moments, and counts what was lost, doubled, reordered
// or made up.
//
//   dovetail_crash --kills N [--seed S] [--dir FOLDER]
//
// Two writers place orders all the time. Two relays share one reader name and two consumers one
// consumer name, so of each pair one stands by. Now one of the four is killed, now one is stopped
// for longer than its lease and then goes on, as a process does that lost its machine for a while.
// One order's handler aborts the process and one order's handler fails: both must end up parked,
// alone with their own product. In the end the handler is mended, both are replayed by the command
// line, and the books of both services must agree.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "demo/books.h"
#include "demo/process.h"
#include "demo/shop.h"
#include "host/host.h"
#include "sqlite/admin.h"

namespace dovetail::shop {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLease = 500ms;
constexpr std::size_t kWindow = 200;
constexpr std::int64_t kOrdersOfAWriter = 1'000'000'000;
constexpr std::int64_t kPuzzlingOrder = 150;
constexpr std::int64_t kDeadlyOrder = 300;
constexpr std::size_t kProducts = 24;
constexpr auto kDrainTimeMax = 120s;

struct Options {
  int kills = 20;
  std::uint64_t seed = 0;
  std::string folder;
  std::string role;
  std::int64_t number = 0;  // of a writer
};

std::string config_text() {
  return "[store.orders]\nurl = \"sqlite:orders.db\"\n"
         "[store.inventory]\nurl = \"sqlite:inventory.db\"\ntopics = [\"orders.events\"]\n"
         "[[relay]]\nname = \"orders-to-inventory\"\nfrom = \"orders\"\nto = \"inventory\"\n"
         "lease = \"" +
         std::to_string(kLease.count()) +
         "ms\"\nbatch_events = 50\nretry_base = \"10ms\"\nreconnect_cap = \"200ms\"\nwindow_events "
         "= " +
         std::to_string(kWindow) + "\n[log]\nformat = \"json\"\n";
}

int play_role(const Options& options) {
  const fs::path folder = options.folder;
  if (options.role == "writer") {
    OrderServiceOptions service;
    service.database = (folder / "orders.db").string();
    service.first_order = options.number * kOrdersOfAWriter + 1;
    service.orders = kOrdersOfAWriter;
    service.products = kProducts;
    service.pause = 2ms;
    service.puzzling_order = kPuzzlingOrder;
    service.deadly_order = kDeadlyOrder;
    service.seed = options.seed + static_cast<std::uint64_t>(options.number);
    const Status status = run_order_service(service);
    if (!status) std::fprintf(stderr, "writer: %s\n", status.error().text.c_str());
    return status ? 0 : 1;
  }
  InventoryServiceOptions service;
  service.database = (folder / "inventory.db").string();
  service.fix_file = (folder / "handler_is_fixed").string();
  service.lease_term = kLease;
  service.attempts_max = 5;
  service.batch_events_max = 50;
  service.window_events_max = kWindow;
  return inventory_service_main(service);
}

// One of a pair that does the same work under one lease.
struct Twin {
  const char* name;
  bool is_relay;
  Process process{};
};

class Siege {
 public:
  explicit Siege(const Options& options)
      : options_(options), folder_(options.folder), random_(options.seed) {}

  bool run();

 private:
  void start(Twin& twin);
  void start_writers();
  void revive_the_dead();
  Twin& choose_victim();
  void kill_one();
  void pause_one();
  bool wait_until(const char* what, const std::function<bool()>& condition);
  void refresh();
  bool delivered_all();
  bool only_two_orders_left();
  bool drained();
  void check_neighbours();
  void replay_by_hand();
  void stop_in_good_order();
  std::uint64_t duplicates();
  void judge();
  void summary(const Books& books, const Verdict& verdict, std::uint64_t duplicates);
  void broken(std::string what) { broken_.push_back(std::move(what)); }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  const Options& options_;
  fs::path folder_;
  std::mt19937_64 random_;
  std::string program_ = own_program();
  std::array<Process, 2> writers_;
  std::array<Twin, 4> twins_{Twin{"relay-a", true}, Twin{"relay-b", true},
                             Twin{"consumer-a", false}, Twin{"consumer-b", false}};
  sqlite::StoreStatus orders_;
  sqlite::StoreStatus inventory_;
  int relay_kills_ = 0;
  int consumer_kills_ = 0;
  int pauses_ = 0;
  int aborts_ = 0;
  std::vector<std::string> broken_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

void Siege::start(Twin& twin) {
  const std::string log = file((std::string(twin.name) + ".log").c_str());
  if (twin.is_relay) {
    twin.process =
        Process::start({DOVETAIL_PROGRAM, "run", "--config", file("dovetail.toml")}, log);
  } else {
    twin.process = Process::start({program_, "--role", "consumer", "--dir", folder_.string()}, log);
  }
}

void Siege::start_writers() {
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    writers_[i] =
        Process::start({program_, "--role", "writer", "--dir", folder_.string(), "--number",
                        std::to_string(i), "--seed", std::to_string(options_.seed)},
                       file("writers.log"));
  }
}

// A consumer dies by itself when its handler aborts; nobody else may.
void Siege::revive_the_dead() {
  for (Twin& twin : twins_) {
    if (twin.process.running()) continue;
    const int code = twin.process.wait(0ms).value_or(-1);
    if (!twin.is_relay && code == 128 + SIGABRT) {
      ++aborts_;
    } else {
      broken(std::string(twin.name) + " ended by itself with code " + std::to_string(code));
    }
    start(twin);
  }
}

std::string owner_of(const sqlite::StoreStatus& status) {
  return status.readers.empty() ? "" : status.readers.front().owner;
}

// Mostly the one that holds the lease: the other only waits.
Twin& Siege::choose_victim() {
  refresh();
  const bool relay = random_() % 2 == 0;
  const std::string owner = owner_of(relay ? orders_ : inventory_);
  Twin* chosen = &twins_[(relay ? 0 : 2) + random_() % 2];
  if (random_() % 4 == 0) return *chosen;
  for (Twin& twin : twins_) {
    const std::string pid = ":" + std::to_string(twin.process.pid());
    if (twin.is_relay == relay && owner.find(pid) != std::string::npos) chosen = &twin;
  }
  return *chosen;
}

void Siege::kill_one() {
  Twin& victim = choose_victim();
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % 20'000));
  if (!victim.process.running()) return revive_the_dead();
  victim.process.kill();
  ++(victim.is_relay ? relay_kills_ : consumer_kills_);
  start(victim);
}

// Longer than the lease: its twin takes over, and when it comes back it must not do any harm.
void Siege::pause_one() {
  Twin& victim = choose_victim();
  victim.process.send(SIGSTOP);
  std::this_thread::sleep_for(kLease + kLease / 2);
  victim.process.send(SIGCONT);
  ++pauses_;
}

bool Siege::wait_until(const char* what, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kDrainTimeMax;
  while (std::chrono::steady_clock::now() < deadline) {
    revive_the_dead();
    refresh();
    if (condition()) return true;
    std::this_thread::sleep_for(20ms);
  }
  broken(std::string("gave up waiting until ") + what);
  return false;
}

void Siege::refresh() {
  if (auto status = sqlite::status(file("orders.db"), system_clock())) orders_ = std::move(*status);
  if (auto status = sqlite::status(file("inventory.db"), system_clock()))
    inventory_ = std::move(*status);
}

bool Siege::delivered_all() {
  return !orders_.readers.empty() && orders_.readers.front().pending == 0 &&
         orders_.readers.front().parked == 0 && orders_.readers.front().waiting == 0 &&
         inventory_.mailbox_rows >= orders_.outbox_rows;
}

bool Siege::only_two_orders_left() {
  if (!delivered_all() || inventory_.readers.empty() || inventory_.readers.front().pending != 0)
    return false;
  sqlite::ParkedFilter heads;
  heads.heads_only = true;
  const auto rows = sqlite::list_parked(file("inventory.db"), heads);
  return rows && rows->size() == 2 && std::all_of(rows->begin(), rows->end(), [](const auto& row) {
           return row.state == sqlite::EventState::parked;
         });
}

bool Siege::drained() {
  return delivered_all() && !inventory_.readers.empty() &&
         inventory_.readers.front().pending == 0 && inventory_.readers.front().parked == 0 &&
         inventory_.readers.front().waiting == 0;
}

// While two orders are parked, every product but theirs must be complete.
void Siege::check_neighbours() {
  const auto books = read_books(file("orders.db"), file("inventory.db"));
  if (!books) return broken("the books cannot be read: " + books.error().text);
  std::set<std::string> blocked;
  for (const Entry& order : books->orders) {
    if (order.order == kPuzzlingOrder || order.order == kDeadlyOrder) blocked.insert(order.product);
  }
  const auto others = [&blocked](const std::vector<Entry>& entries) {
    std::vector<Entry> kept;
    std::copy_if(entries.begin(), entries.end(), std::back_inserter(kept),
                 [&blocked](const Entry& entry) { return !blocked.contains(entry.product); });
    return kept;
  };
  const Verdict verdict = compare_books(others(books->orders), others(books->movements));
  if (!verdict.ok())
    broken("a parked order held up or disturbed another product: " + verdict.examples.front());
  for (const Entry& movement : books->movements) {
    if (movement.order == kPuzzlingOrder || movement.order == kDeadlyOrder) {
      broken("a parked order has moved stock");
    }
  }
}

void Siege::replay_by_hand() {
  std::ofstream(file("handler_is_fixed")) << "yes\n";
  Process replay = Process::start(
      {DOVETAIL_PROGRAM, "parked", "replay", "--all", "--yes", "--config", file("dovetail.toml")},
      file("replay.log"));
  if (replay.wait(30s) != 0) broken("'dovetail parked replay' failed; see replay.log");
}

void Siege::stop_in_good_order() {
  for (Twin& twin : twins_) twin.process.send(SIGTERM);
  for (Twin& twin : twins_) {
    if (twin.process.wait(30s) != 0) broken(std::string(twin.name) + " did not stop in good order");
  }
}

// What the mailbox and the inbox recognised. A relay that is killed takes the last few of its count
// with it.
std::uint64_t Siege::duplicates() {
  std::uint64_t count = 0;
  for (const auto& consumer : inventory_.consumers) count += consumer.duplicates;
  for (const char* name : {"relay-a.log", "relay-b.log"}) {
    std::ifstream log(folder_ / name);
    for (std::string line; std::getline(log, line);) {
      constexpr std::string_view kCount = "\"count\":\"";
      const std::size_t at = line.find(kCount);
      if (line.find("\"event\":\"duplicates\"") == std::string::npos || at == std::string::npos)
        continue;
      count += std::strtoull(line.c_str() + at + kCount.size(), nullptr, 10);
    }
  }
  return count;
}

void Siege::judge() {
  refresh();
  const auto books = read_books(file("orders.db"), file("inventory.db"));
  if (!books) return broken("the books cannot be read: " + books.error().text);
  const Verdict verdict = compare_books(books->orders, books->movements);
  if (!verdict.ok()) {
    for (const std::string& example : verdict.examples) broken(example);
  }
  if (orders_.outbox_rows != books->orders.size()) broken("orders and events differ in number");
  if (books->quantity_ordered != books->stock_taken) broken("pieces ordered and taken differ");
  const int interruptions = relay_kills_ + consumer_kills_ + pauses_ + aborts_;
  const std::uint64_t seen = duplicates();
  if (seen > static_cast<std::uint64_t>(interruptions) * kWindow)
    broken("more duplicates than the windows of all interruptions");
  if (aborts_ == 0) broken("the deadly order never killed a consumer: the test is blind there");
  summary(*books, verdict, seen);
}

void Siege::summary(const Books& books, const Verdict& verdict, std::uint64_t duplicates) {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  std::printf(
      "dovetail_crash: %d kills (%d relay, %d consumer), %d pauses, %d aborts, %zu orders: %zu "
      "lost, %zu phantom, "
      "%zu reordered, %zu double effects; %llu duplicates suppressed; seed %llu, %.1f s\n",
      relay_kills_ + consumer_kills_, relay_kills_, consumer_kills_, pauses_, aborts_,
      books.orders.size(), verdict.lost, verdict.phantom, verdict.reordered, verdict.doubled,
      static_cast<unsigned long long>(duplicates), static_cast<unsigned long long>(options_.seed),
      seconds);
}

bool Siege::run() {
  std::ofstream(file("dovetail.toml")) << config_text();
  for (const Status& made :
       {open_order_books(file("orders.db")), open_stock_books(file("inventory.db"))}) {
    if (!made) {
      std::fprintf(stderr, "dovetail_crash: %s\n", made.error().text.c_str());
      return false;
    }
  }
  start_writers();
  for (Twin& twin : twins_) start(twin);
  while (relay_kills_ + consumer_kills_ < options_.kills) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random_() % 600));
    revive_the_dead();
    if (random_() % 8 == 0) pause_one();
    kill_one();
  }
  // The writers die in the middle of something too: what they had not committed must not exist.
  for (Process& writer : writers_) {
    if (!writer.running()) broken("a writer ended by itself; see writers.log");
    writer.kill();
  }
  if (wait_until("all is applied but two parked orders",
                 [this] { return only_two_orders_left(); })) {
    check_neighbours();
    replay_by_hand();
    wait_until("what was replayed is applied", [this] { return drained(); });
  }
  stop_in_good_order();
  judge();
  for (const std::string& what : broken_) std::fprintf(stderr, "BROKEN: %s\n", what.c_str());
  return broken_.empty();
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--kills") options.kills = std::atoi(value);
    if (name == "--seed") options.seed = std::strtoull(value, nullptr, 10);
    if (name == "--dir") options.folder = value;
    if (name == "--role") options.role = value;
    if (name == "--number") options.number = std::atoll(value);
  }
  return options;
}

int main_of(int argc, char** argv) {
  Options options = parse(argc, argv);
  if (!options.role.empty()) return play_role(options);
  if (argc % 2 == 0 || options.kills < 1) {
    std::fprintf(stderr, "usage: dovetail_crash --kills N [--seed S] [--dir FOLDER]\n");
    return 2;
  }
  if (options.seed == 0) options.seed = std::random_device{}() | 1U;
  const bool temporary = options.folder.empty();
  std::string pattern = (fs::temp_directory_path() / "dovetail-crash-XXXXXX").string();
  if (temporary && ::mkdtemp(pattern.data()) != nullptr) options.folder = pattern;
  fs::create_directories(options.folder);
  const bool good = Siege(options).run();
  if (good && temporary) {
    fs::remove_all(options.folder);
  } else {
    std::fprintf(stderr, "dovetail_crash: the files are in %s\n", options.folder.c_str());
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace dovetail::shop

int main(int argc, char** argv) { return dovetail::shop::main_of(argc, argv); }
