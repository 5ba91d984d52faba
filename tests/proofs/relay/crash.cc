// Kills real relays and consumers at random moments, and counts events that are lost, doubled,
// reordered or invented.
//
//   dovetail_crash [sqlite | postgres | postgres-auto | postgres-wal] [--kills N] [--seed S]
//                  [--dir FOLDER]
//
// Two writers place orders all the time. From SQLite, two relays share one name, so one stands
// by. From PostgreSQL, three relays share four lanes, or two of them read the WAL in the mode
// that the argument names. Two consumers share one name. Processes are killed, or stopped for
// longer than their lease and continued, as after a machine's pause. The PostgreSQL server ends
// without a checkpoint and comes back. The handler aborts the process for one order and fails for
// another one: both must be parked in the end, without harm to other products. At the end the
// handler is fixed, both orders are replayed by the command line, and the books of both services
// must agree.
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
#include <memory>
#include <optional>
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
#include "proofs/relay/road.h"
#include "sqlite/operate/admin.h"

namespace dovetail::shop {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLease = 500ms;
constexpr std::size_t kWindow = 200;
constexpr std::int64_t kOrdersOfAWriter = 1'000'000'000;
constexpr std::int64_t kPuzzlingOrder = 50;
constexpr std::int64_t kDeadlyOrder = 100;
constexpr std::size_t kProducts = 24;
constexpr auto kDrainTimeMax = 120s;

struct Options {
  std::string road = "sqlite";
  int kills = 200;
  std::uint64_t seed = 0;
  std::string folder;
  std::string role;
  std::int64_t number = 0;  // the writer's number
};

std::unique_ptr<Road> road_of(const Options& options, bool is_host) {
  if (options.road == "sqlite") return sqlite_road(options.folder);
  const std::size_t dash = options.road.find('-');
  return postgres_road(options.folder, is_host,
                       dash == std::string::npos ? "poll" : options.road.substr(dash + 1));
}

std::string config_text(const Road& road) {
  const std::string lanes =
      road.lanes() == 1 ? "" : "lanes = " + std::to_string(road.lanes()) + "\n";
  const std::string mode = road.mode().empty() ? "" : "mode = \"" + road.mode() + "\"\n";
  return "[store.orders]\nurl = \"" + road.url() +
         "\"\n[store.inventory]\nurl = \"sqlite:inventory.db\"\ntopics = [\"orders.events\"]\n"
         "[[relay]]\nname = \"orders-to-inventory\"\nfrom = \"orders\"\nto = \"inventory\"\n" +
         lanes + mode + "lease = \"" + std::to_string(kLease.count()) +
         "ms\"\nbatch_events = 50\nretry_base = \"10ms\"\nreconnect_cap = \"200ms\"\nwindow_events "
         "= " +
         std::to_string(kWindow) + "\n[log]\nformat = \"json\"\n";
}

int play_role(const Options& options) {
  const fs::path folder = options.folder;
  if (options.role == "writer") {
    OrderServiceOptions service;
    service.first_order = options.number * kOrdersOfAWriter + 1;
    service.orders = kOrdersOfAWriter;
    service.products = kProducts;
    service.pause = 2ms;
    service.puzzling_order = kPuzzlingOrder;
    service.deadly_order = kDeadlyOrder;
    service.seed = options.seed + static_cast<std::uint64_t>(options.number);
    const Status status = road_of(options, false)->run_order_service(service);
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

// One of several that do the same work under leases.
struct Twin {
  const char* name;
  bool is_relay;
  Process process{};
};

class Siege {
 public:
  Siege(const Options& options, Road& road);

  bool run();

 private:
  void start(Twin& twin);
  void start_writers();
  void revive_the_dead();
  Twin& choose_victim();
  void kill_one();
  void pause_one();
  void crash_server();
  bool wait_until(const char* what, const std::function<bool()>& condition);
  void refresh();
  bool deadly_order_is_placed();
  bool delivered_all();
  bool only_two_orders_left();
  bool drained();
  void check_neighbours();
  void replay_by_hand();
  void stop_in_good_order();
  std::uint64_t duplicates();
  std::vector<std::string> relays_said(std::string_view what) const;
  Result<Books> read_books();
  void judge();
  void summary(const Books& books, const Verdict& verdict, std::uint64_t duplicates);
  void broken(std::string what) { broken_.push_back(std::move(what)); }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  const Options& options_;
  Road& road_;
  fs::path folder_;
  std::mt19937_64 random_;
  std::string program_ = own_program();
  std::array<Process, 2> writers_;
  std::vector<Twin> twins_;
  Outbox outbox_;
  sqlite::StoreStatus inventory_;
  int relay_kills_ = 0;
  int consumer_kills_ = 0;
  int pauses_ = 0;
  int crashes_ = 0;  // crashes of the server
  int aborts_ = 0;
  std::vector<std::string> broken_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

Siege::Siege(const Options& options, Road& road)
    : options_(options), road_(road), folder_(options.folder), random_(options.seed) {
  constexpr std::array kRelays{"relay-a", "relay-b", "relay-c"};
  for (std::size_t i = 0; i < road.relays(); ++i) twins_.push_back({kRelays.at(i), true});
  for (const char* name : {"consumer-a", "consumer-b"}) twins_.push_back({name, false});
}

void Siege::start(Twin& twin) {
  const std::string log = file((std::string(twin.name) + ".log").c_str());
  if (twin.is_relay) {
    twin.process =
        Process::start({DOVETAIL_PROGRAM, "run", "--config", file("dovetail.toml")}, log);
  } else {
    twin.process = Process::start(
        {program_, options_.road, "--role", "consumer", "--dir", folder_.string()}, log);
  }
}

void Siege::start_writers() {
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    writers_[i] =
        Process::start({program_, options_.road, "--role", "writer", "--dir", folder_.string(),
                        "--number", std::to_string(i), "--seed", std::to_string(options_.seed)},
                       file("writers.log"));
  }
}

// A consumer dies by itself if its handler aborts; no other process may.
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

// Mostly one that holds a lease; the others only wait.
Twin& Siege::choose_victim() {
  refresh();
  const bool relay = random_() % 2 == 0;
  const std::string owners = relay                       ? outbox_.owners
                             : inventory_.relays.empty() ? ""
                                                         : inventory_.relays.front().owner;
  std::vector<Twin*> all;
  std::vector<Twin*> holders;
  for (Twin& twin : twins_) {
    if (twin.is_relay != relay) continue;
    all.push_back(&twin);
    const std::string pid = ":" + std::to_string(twin.process.pid());
    if (owners.find(pid) != std::string::npos) holders.push_back(&twin);
  }
  const std::vector<Twin*>& from = holders.empty() || random_() % 4 == 0 ? all : holders;
  return *from[random_() % from.size()];
}

void Siege::kill_one() {
  Twin& victim = choose_victim();
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % 20'000));
  if (!victim.process.running()) return revive_the_dead();
  victim.process.kill();
  ++(victim.is_relay ? relay_kills_ : consumer_kills_);
  start(victim);
}

// Longer than the lease: its twin takes over, and when it continues it must do no harm.
void Siege::pause_one() {
  Twin& victim = choose_victim();
  victim.process.send(SIGSTOP);
  std::this_thread::sleep_for(kLease + kLease / 2);
  victim.process.send(SIGCONT);
  ++pauses_;
}

void Siege::crash_server() {
  const Status crashed = road_.crash_server();
  if (crashed) {
    ++crashes_;
  } else if (crashed.error().code != Errc::rejected) {
    broken(crashed.error().text);
  }
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
  // If the outbox cannot be read, it does not count as finished.
  outbox_ = road_.look().value_or(Outbox{.events = 1, .pending = 1});
  if (auto status = sqlite::status(file("inventory.db"), system_clock()))
    inventory_ = std::move(*status);
}

bool Siege::deadly_order_is_placed() {
  Books books;
  return road_.read_orders(books) &&
         std::any_of(books.orders.begin(), books.orders.end(),
                     [](const Entry& entry) { return entry.order == kDeadlyOrder; });
}

bool Siege::delivered_all() {
  return outbox_.pending == 0 && outbox_.held == 0 && inventory_.mailbox_rows >= outbox_.events;
}

bool Siege::only_two_orders_left() {
  if (!delivered_all() || inventory_.relays.empty() || inventory_.relays.front().pending != 0)
    return false;
  ParkedFilter heads;
  heads.heads_only = true;
  const auto rows = sqlite::list_parked(file("inventory.db"), heads);
  return rows && rows->size() == 2 && std::all_of(rows->begin(), rows->end(), [](const auto& row) {
           return row.state == EventState::parked;
         });
}

bool Siege::drained() {
  return delivered_all() && !inventory_.relays.empty() && inventory_.relays.front().pending == 0 &&
         inventory_.relays.front().parked == 0 && inventory_.relays.front().waiting == 0;
}

Result<Books> Siege::read_books() {
  Books books;
  DOVETAIL_TRY(road_.read_orders(books));
  DOVETAIL_TRY(read_stock_books(file("inventory.db"), books));
  return books;
}

// While two orders are parked, all other products must be complete.
void Siege::check_neighbours() {
  const auto books = read_books();
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
  if (replay.wait(90s) != 0) broken("'dovetail parked replay' failed; see replay.log");
}

void Siege::stop_in_good_order() {
  for (Twin& twin : twins_) twin.process.send(SIGTERM);
  for (Twin& twin : twins_) {
    if (twin.process.wait(90s) != 0) broken(std::string(twin.name) + " did not stop cleanly");
  }
}

// Duplicates that the mailbox and the inbox recognised. A killed relay loses the last part of its
// count.
std::uint64_t Siege::duplicates() {
  std::uint64_t count = 0;
  for (const auto& consumer : inventory_.consumers) count += consumer.duplicates;
  for (const std::string& line : relays_said("\"event\":\"duplicates\"")) {
    constexpr std::string_view kCount = "\"count\":\"";
    const std::size_t at = line.find(kCount);
    if (at != std::string::npos)
      count += std::strtoull(line.c_str() + at + kCount.size(), nullptr, 10);
  }
  return count;
}

// All lines of their logs with this in them.
std::vector<std::string> Siege::relays_said(std::string_view what) const {
  std::vector<std::string> lines;
  for (const Twin& twin : twins_) {
    if (!twin.is_relay) continue;
    std::ifstream log(file((std::string(twin.name) + ".log").c_str()));
    for (std::string line; std::getline(log, line);)
      if (line.find(what) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

void Siege::judge() {
  refresh();
  const auto books = read_books();
  if (!books) return broken("the books cannot be read: " + books.error().text);
  const Verdict verdict = compare_books(books->orders, books->movements);
  if (!verdict.ok()) {
    for (const std::string& example : verdict.examples) broken(example);
  }
  if (outbox_.events != books->orders.size()) broken("orders and events differ in number");
  if (books->quantity_ordered != books->stock_taken) broken("pieces ordered and taken differ");
  const int interruptions = relay_kills_ + consumer_kills_ + pauses_ + crashes_ + aborts_;
  const std::uint64_t seen = duplicates();
  if (seen > static_cast<std::uint64_t>(interruptions) * kWindow * road_.lanes())
    broken("more duplicates than the windows of all interruptions");
  const bool reads_wal = road_.mode() == "auto" || road_.mode() == "wal";
  // Each event is settled by one write; an accepted write of a stale relay would count twice.
  // Events from the WAL are counted before their position is reported, so a repeated event counts
  // again.
  const std::uint64_t counted_again = reads_wal ? seen : 0;
  if (outbox_.settled < outbox_.events || outbox_.settled > outbox_.events + counted_again)
    broken(std::to_string(outbox_.settled) + " events settled, and there are " +
           std::to_string(outbox_.events));
  if (reads_wal && relays_said("reads the WAL").empty())
    broken("the log was never read: the test is blind there");
  if (aborts_ == 0) broken("the deadly order never killed a consumer: the test is blind there");
  summary(*books, verdict, seen);
}

void Siege::summary(const Books& books, const Verdict& verdict, std::uint64_t duplicates) {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  std::printf(
      "dovetail_crash %s: %d kills (%d relay, %d consumer), %d pauses, %d server crashes, %d "
      "aborts, "
      "%zu orders: %zu lost, %zu phantom, %zu reordered, %zu double effects; %llu duplicates "
      "suppressed; seed %llu, %.1f s\n",
      options_.road.c_str(), relay_kills_ + consumer_kills_, relay_kills_, consumer_kills_, pauses_,
      crashes_, aborts_, books.orders.size(), verdict.lost, verdict.phantom, verdict.reordered,
      verdict.doubled, static_cast<unsigned long long>(duplicates),
      static_cast<unsigned long long>(options_.seed), seconds);
}

bool Siege::run() {
  std::ofstream(file("dovetail.toml")) << config_text(road_);
  start_writers();
  for (Twin& twin : twins_) start(twin);
  for (int turn = 0; relay_kills_ + consumer_kills_ < options_.kills; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random_() % 600));
    revive_the_dead();
    // A short siege has some of each, too.
    if (turn == 2 || random_() % 8 == 0) pause_one();
    if (turn == 4 || random_() % 12 == 0) crash_server();
    kill_one();
  }
  wait_until("the deadly order is placed", [this] { return deadly_order_is_placed(); });
  // The writers also die in the middle of a transaction, which must then not exist.
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

// Empty if the command line is wrong.
std::optional<Options> parse(int argc, char** argv) {
  Options options;
  int next = 1;
  if (argc > 1 && argv[1][0] != '-') options.road = argv[next++];
  for (; next + 1 < argc; next += 2) {
    const std::string_view name = argv[next];
    const char* const value = argv[next + 1];
    if (name == "--kills") options.kills = std::atoi(value);
    if (name == "--seed") options.seed = std::strtoull(value, nullptr, 10);
    if (name == "--dir") options.folder = value;
    if (name == "--role") options.role = value;
    if (name == "--number") options.number = std::atoll(value);
  }
  const std::string_view roads = DOVETAIL_ROADS;
  const bool is_known = roads.find(options.road) != std::string_view::npos;
  if (next != argc || !is_known || options.kills < 1) return std::nullopt;
  return options;
}

// The exit code. A server started for it has stopped when this returns.
int lay_siege(const Options& options) {
  const std::unique_ptr<Road> road = road_of(options, true);
  if (const Status opened = road->open(); !opened) {
    std::fprintf(stderr, "SKIPPED: %s\n", opened.error().text.c_str());
    return 77;
  }
  if (const Status made = open_stock_books(options.folder + "/inventory.db"); !made) {
    std::fprintf(stderr, "dovetail_crash: %s\n", made.error().text.c_str());
    return 1;
  }
  return Siege(options, *road).run() ? 0 : 1;
}

int main_of(int argc, char** argv) {
  std::optional<Options> parsed = parse(argc, argv);
  if (!parsed) {
    std::fprintf(stderr, "usage: dovetail_crash [" DOVETAIL_ROADS
                         "] [--kills N] [--seed S] [--dir FOLDER]\n");
    return 2;
  }
  Options& options = *parsed;
  if (!options.role.empty()) return play_role(options);
  if (options.seed == 0) options.seed = std::random_device{}() | 1U;
  const bool temporary = options.folder.empty();
  std::string pattern = (fs::temp_directory_path() / "dovetail-crash-XXXXXX").string();
  if (temporary && ::mkdtemp(pattern.data()) != nullptr) options.folder = pattern;
  fs::create_directories(options.folder);
  const int code = lay_siege(options);
  if (code != 1 && temporary) {
    fs::remove_all(options.folder);
  } else {
    std::fprintf(stderr, "dovetail_crash: the files are in %s\n", options.folder.c_str());
  }
  return code;
}

}  // namespace
}  // namespace dovetail::shop

int main(int argc, char** argv) { return dovetail::shop::main_of(argc, argv); }
