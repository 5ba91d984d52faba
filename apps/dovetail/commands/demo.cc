// The demo: a shop of separate processes. Some are killed, and at the end the books are compared.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "commands/parked.h"
#include "config/units.h"
#include "demo/books.h"
#include "demo/process.h"
#include "demo/shop.h"
#include "demo/stage.h"
#include "host/host.h"
#include "sqlite/operate/admin.h"

namespace dovetail::app {
namespace {

struct DemoOptions {
  std::uint64_t orders = 2000;
  std::uint64_t kills = 8;
  std::string dir;         // empty: temporary, removed at the end
  bool plain = false;      // no animated display
  std::uint64_t seed = 0;  // 0: from the clock
  std::string role;        // of a child process
};

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using shop::Process;

constexpr const char* kReader = "orders-to-inventory";
constexpr const char* kConsumer = "inventory";
constexpr auto kDrainTimeMax = 60s;

constexpr std::string_view kDemoConfig = R"([store.orders]
url = "sqlite:orders.db"

[store.inventory]
url = "sqlite:inventory.db"
topics = ["orders.events"]

[[relay]]
name = "orders-to-inventory"
from = "orders"
to = "inventory"
topic = "{aggregate_type}.events"
lease = "500ms"
window_events = 1000
batch_events = 200
retry_base = "20ms"

[log]
format = "json"
)";

std::atomic<bool> interrupted{false};

std::int64_t poison_order(const DemoOptions& options) {
  // Not an order that its customer cancels.
  const auto third = static_cast<std::int64_t>(options.orders / 3);
  return third - third % 10 + 8;
}

// The demo should take about twelve seconds, or less for few orders.
std::chrono::microseconds pause_between_orders(const DemoOptions& options) {
  const auto us = static_cast<std::int64_t>(12'000'000 / options.orders);
  return std::chrono::microseconds(std::min<std::int64_t>(us, 10'000));
}

// The totals of the final table.
struct Totals {
  shop::Books books;
  shop::Verdict verdict;
  std::uint64_t events = 0;
  std::uint64_t delivered = 0;           // events in the mailbox
  std::uint64_t mailbox_duplicates = 0;  // reported by relays that were not killed before
  std::uint64_t inbox_duplicates = 0;
  std::uint64_t parked = 0;
  std::uint64_t replayed = 0;
  std::uint64_t waited_behind = 0;  // the maximum at one time
  std::uint64_t relay_kills = 0;
  std::uint64_t service_kills = 0;
  double seconds = 0;
  std::vector<std::string> broken;  // promises
};

class Director {
 public:
  Director(const DemoOptions& options, fs::path folder, shop::Stage& stage);

  Expected<Totals> play();

 private:
  Expected<bool> set_up();
  void start_relay();
  void start_inventory();
  void plan_kills();
  void look();
  void kill_on_plan();
  void follow_the_poison();
  bool drained();
  void stop_all();
  void check(Totals& totals);
  std::uint64_t duplicates_in_relay_log() const;
  std::string file(const char* name) const { return (folder_ / name).string(); }

  const DemoOptions& options_;
  fs::path folder_;
  shop::Stage& stage_;
  std::mt19937_64 random_;
  std::string program_ = shop::own_program();
  config::Config config_;
  Process orders_;
  Process relay_;
  Process inventory_;
  std::vector<std::int64_t> kill_at_;  // order numbers, the next one last
  std::int64_t placed_ = 0;
  std::int64_t moved_ = 0;
  sqlite::StoreStatus orders_status_;
  sqlite::StoreStatus inventory_status_;
  bool poison_seen_ = false;
  bool handler_fixed_ = false;
  Totals totals_;
};

Director::Director(const DemoOptions& options, fs::path folder, shop::Stage& stage)
    : options_(options),
      folder_(std::move(folder)),
      stage_(stage),
      random_(options.seed != 0
                  ? options.seed
                  : static_cast<std::uint64_t>(wall_now().time_since_epoch().count())) {}

Expected<bool> Director::set_up() {
  std::ofstream(file("dovetail.toml")) << kDemoConfig;
  auto config = config::load_config(folder_ / "dovetail.toml");
  if (!config) return refuse(Exit::unavailable, config.error().text);
  config_ = std::move(*config);
  DOVETAIL_OR_REFUSE(shop::open_order_books(file("orders.db")));
  DOVETAIL_OR_REFUSE(shop::open_stock_books(file("inventory.db")));
  plan_kills();
  return true;
}

// One kill in each part of the run.
void Director::plan_kills() {
  const auto kills = static_cast<std::int64_t>(options_.kills);
  const auto orders =
      static_cast<std::int64_t>(options_.orders) * 9 / 10;  // the rest is rolled back
  for (std::int64_t i = kills; i > 0; --i) {
    const std::int64_t part = std::max<std::int64_t>(1, orders * 9 / 10 / kills);
    kill_at_.push_back(orders / 20 + (i - 1) * part +
                       static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(part)));
  }
}

void Director::start_relay() {
  relay_ = Process::start({program_, "run", "--config", file("dovetail.toml")}, file("relay.log"));
}

void Director::start_inventory() {
  inventory_ = Process::start({program_, "demo", "--role", "inventory", "--dir", folder_.string()},
                              file("inventory.log"));
}

const dovetail::RelayStatus* find_reader(const sqlite::StoreStatus& status, std::string_view name) {
  for (const auto& reader : status.relays) {
    if (reader.name == name) return &reader;
  }
  return nullptr;
}

void Director::look() {
  placed_ = shop::count_orders(file("orders.db"));
  moved_ = shop::count_movements(file("inventory.db"));
  if (auto status = sqlite::status(file("orders.db"), system_clock()))
    orders_status_ = std::move(*status);
  if (auto status = sqlite::status(file("inventory.db"), system_clock())) {
    inventory_status_ = std::move(*status);
  }
  const auto* consumer = find_reader(inventory_status_, kConsumer);
  const std::uint64_t parked = consumer == nullptr ? 0 : consumer->parked;
  const std::uint64_t waiting = consumer == nullptr ? 0 : consumer->waiting;
  totals_.waited_behind = std::max(totals_.waited_behind, parked == 0 ? 0 : waiting);
  const auto goal = static_cast<std::int64_t>(options_.orders) * 9 / 10;
  const auto killed = [](std::uint64_t times) {
    return times == 0 ? std::string()
                      : ", killed " + std::to_string(times) + (times == 1 ? " time" : " times");
  };
  stage_.show(
      {{"orders placed", placed_, goal},
       {"events delivered", static_cast<std::int64_t>(inventory_status_.mailbox_rows), goal},
       {"stock moved", moved_, goal},
       {"relay", 0, 0, "pid " + std::to_string(relay_.pid()) + killed(totals_.relay_kills)},
       {"inventory service", 0, 0,
        "pid " + std::to_string(inventory_.pid()) + killed(totals_.service_kills)},
       {"parked", 0, 0,
        parked == 0 ? "none"
                    : std::to_string(parked) + " order; " + std::to_string(waiting) +
                          " of the same product wait behind it"}});
}

void Director::kill_on_plan() {
  if (kill_at_.empty() || placed_ < kill_at_.back()) return;
  kill_at_.pop_back();
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % 30'000));
  const bool relay = (totals_.relay_kills + totals_.service_kills) % 2 == 0;
  Process& victim = relay ? relay_ : inventory_;
  const int pid = victim.pid();
  victim.kill();
  ++(relay ? totals_.relay_kills : totals_.service_kills);
  relay ? start_relay() : start_inventory();
  stage_.tell(std::string("kill -9 ") + std::to_string(pid) +
              (relay ? ": the relay is dead; " : ": the inventory service is dead; ") +
              "its replacement has pid " + std::to_string(victim.pid()));
}

// The operator: sees the parked order, has the handler fixed, and replays.
void Director::follow_the_poison() {
  const auto* consumer = find_reader(inventory_status_, kConsumer);
  if (consumer == nullptr) return;
  if (!poison_seen_ && consumer->parked > 0) {
    poison_seen_ = true;
    totals_.parked = consumer->parked;
    stage_.tell(
        "order " + std::to_string(poison_order(options_)) +
        " says \"three\" but the handler needs a number: parked after 3 attempts. Its product "
        "waits, the others continue");
  }
  const bool late = placed_ >= static_cast<std::int64_t>(options_.orders) * 7 / 10;
  if (!poison_seen_ || handler_fixed_ || !(late || !orders_.running())) return;
  handler_fixed_ = true;
  std::ofstream(file("handler_is_fixed")) << "yes\n";
  stage_.tell("the handler is fixed, and the operator types: dovetail parked replay --all --yes");
  ParkedOptions all;
  all.all = true;
  const auto heads = select_heads(config_, all);
  if (!heads) return stage_.tell("cannot list parked events: " + heads.error().text);
  const auto count = replay(*heads);
  if (!count) return stage_.tell("cannot replay: " + count.error().text);
  totals_.replayed = *count;
}

bool Director::drained() {
  const auto* relay = find_reader(orders_status_, kReader);
  const auto* consumer = find_reader(inventory_status_, kConsumer);
  return relay != nullptr && consumer != nullptr && relay->pending == 0 && relay->parked == 0 &&
         relay->waiting == 0 && inventory_status_.mailbox_rows >= orders_status_.outbox_rows &&
         consumer->pending == 0 && consumer->parked == 0 && consumer->waiting == 0 &&
         handler_fixed_;
}

void Director::stop_all() {
  relay_.send(SIGTERM);
  inventory_.send(SIGTERM);
  const auto relay_code = relay_.wait(20s);
  const auto inventory_code = inventory_.wait(20s);
  if (relay_code != 0) totals_.broken.push_back("the relay did not stop cleanly; see relay.log");
  if (inventory_code != 0) {
    totals_.broken.push_back("the inventory service did not stop cleanly; see inventory.log");
  }
}

// The last duplicates of a killed relay are missing: it could not report them.
std::uint64_t Director::duplicates_in_relay_log() const {
  std::ifstream log(folder_ / "relay.log");
  std::uint64_t count = 0;
  for (std::string line; std::getline(log, line);) {
    const Json entry = Json::parse(line, nullptr, false);
    if (!entry.is_object() || entry.value("event", "") != "duplicates") continue;
    count += std::strtoull(entry.value("count", "0").c_str(), nullptr, 10);
  }
  return count;
}

void Director::check(Totals& totals) {
  const auto books = shop::read_books(file("orders.db"), file("inventory.db"));
  if (!books) {
    totals.broken.push_back("cannot read the books: " + books.error().text);
    return;
  }
  totals.books = *books;
  totals.verdict = shop::compare_books(books->orders, books->movements);
  totals.events = orders_status_.outbox_rows;
  totals.delivered = inventory_status_.mailbox_rows;
  totals.mailbox_duplicates = duplicates_in_relay_log();
  for (const auto& consumer : inventory_status_.consumers)
    totals.inbox_duplicates += consumer.duplicates;

  const auto promise = [&totals](bool kept, std::string text) {
    if (!kept) totals.broken.push_back(std::move(text));
  };
  const shop::Verdict& verdict = totals.verdict;
  promise(totals.events == books->orders.size(),
          "G1 atomic: " + std::to_string(books->orders.size()) + " orders committed, but " +
              std::to_string(totals.events) + " events exist");
  promise(verdict.lost == 0,
          "G2 no loss: " + std::to_string(verdict.lost) + " orders never moved stock");
  promise(verdict.phantom == 0,
          "G1 atomic: " + std::to_string(verdict.phantom) + " movements have no order");
  promise(verdict.reordered == 0,
          "G3 order: " + std::to_string(verdict.reordered) + " movements overtook an earlier one");
  promise(verdict.doubled == 0,
          "G4 once: " + std::to_string(verdict.doubled) + " orders moved stock twice");
  promise(books->quantity_ordered == books->stock_taken,
          "G4 once: " + std::to_string(books->quantity_ordered) + " pieces were ordered and " +
              std::to_string(books->stock_taken) + " left the stock");
  promise(totals.parked > 0, "G5 isolation: the poison order was not parked");
  for (const std::string& example : verdict.examples) totals.broken.push_back("  " + example);
}

Expected<Totals> Director::play() {
  const auto start = std::chrono::steady_clock::now();
  const auto ready = set_up();
  if (!ready) return tl::unexpected(ready.error());
  orders_ = Process::start({program_, "demo", "--role", "orders", "--dir", folder_.string(),
                            "--orders", std::to_string(options_.orders)},
                           file("orders.log"));
  start_relay();
  start_inventory();
  stage_.tell("order service (pid " + std::to_string(orders_.pid()) + "), relay (pid " +
              std::to_string(relay_.pid()) + ") and inventory service (pid " +
              std::to_string(inventory_.pid()) + ") are running");
  std::optional<std::chrono::steady_clock::time_point> finished;
  while (true) {
    if (interrupted) return refuse(Exit::negative, "interrupted; the books were not compared");
    look();
    kill_on_plan();
    follow_the_poison();
    if (!orders_.running()) {
      if (!finished) {
        finished = std::chrono::steady_clock::now();
        if (orders_.wait(0ms) != 0) {
          totals_.broken.push_back("the order service failed; see orders.log");
          break;
        }
        stage_.tell(
            "all orders are placed; one in ten customers cancelled, and the order was rolled back");
      }
      if (drained()) break;
      if (std::chrono::steady_clock::now() - *finished > kDrainTimeMax) {
        totals_.broken.push_back(
            "G2 no loss: the events did not arrive within a minute; see the logs");
        break;
      }
    }
    std::this_thread::sleep_for(20ms);
  }
  stage_.clear();
  if (totals_.broken.empty()) {
    stage_.tell("everything has arrived; the relay and the inventory service are stopping");
  }
  stop_all();
  look();
  stage_.clear();
  check(totals_);
  totals_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(totals_);
}

std::string table_of(const Totals& totals) {
  const auto number = [](std::uint64_t value) { return config::human_count(value); };
  const auto zero = [](std::size_t count) { return count == 0 ? "kept" : "BROKEN"; };
  Table table({"", ">", ""});
  table.add({"orders in the order service's book", number(totals.books.orders.size()), ""});
  table.add({"events published with them", number(totals.events),
             totals.events == totals.books.orders.size() ? "one per order, none for a rollback"
                                                         : "BROKEN"});
  table.add({"events delivered to inventory", number(totals.delivered), ""});
  table.add({"duplicates suppressed", number(totals.mailbox_duplicates + totals.inbox_duplicates),
             number(totals.mailbox_duplicates) + " by the mailbox, " +
                 number(totals.inbox_duplicates) + " by the inbox"});
  table.add({"stock movements", number(totals.books.movements.size()), ""});
  table.add(
      {"pieces ordered", number(static_cast<std::uint64_t>(totals.books.quantity_ordered)), ""});
  table.add({"pieces taken from stock",
             number(static_cast<std::uint64_t>(totals.books.stock_taken)), ""});
  table.add({"parked, then replayed", number(totals.parked) + ", " + number(totals.replayed),
             "up to " + number(totals.waited_behind) + " waited behind it"});
  table.add({"kill -9 of the relay", number(totals.relay_kills), ""});
  table.add({"kill -9 of the inventory service", number(totals.service_kills), ""});
  table.add({"lost", number(totals.verdict.lost), zero(totals.verdict.lost)});
  table.add({"phantom", number(totals.verdict.phantom), zero(totals.verdict.phantom)});
  table.add({"reordered", number(totals.verdict.reordered), zero(totals.verdict.reordered)});
  table.add({"applied twice", number(totals.verdict.doubled), zero(totals.verdict.doubled)});
  std::string text = table.to_string();
  return text.substr(text.find('\n') + 1);  // The table has no titles.
}

Json json_of(const Totals& totals, const fs::path& folder) {
  return {{"orders", totals.books.orders.size()},
          {"events", totals.events},
          {"delivered", totals.delivered},
          {"duplicates_suppressed", totals.mailbox_duplicates + totals.inbox_duplicates},
          {"movements", totals.books.movements.size()},
          {"pieces_ordered", totals.books.quantity_ordered},
          {"pieces_taken", totals.books.stock_taken},
          {"parked", totals.parked},
          {"replayed", totals.replayed},
          {"relay_kills", totals.relay_kills},
          {"inventory_kills", totals.service_kills},
          {"lost", totals.verdict.lost},
          {"phantom", totals.verdict.phantom},
          {"reordered", totals.verdict.reordered},
          {"doubled", totals.verdict.doubled},
          {"broken_promises", totals.broken},
          {"seconds", totals.seconds},
          {"folder", folder.string()}};
}

Answer play_role(const DemoOptions& options) {
  const fs::path folder = options.dir;
  if (options.role == "orders") {
    shop::OrderServiceOptions service;
    service.database = (folder / "orders.db").string();
    service.orders = static_cast<std::int64_t>(options.orders);
    service.pause = pause_between_orders(options);
    service.puzzling_order = poison_order(options);
    DOVETAIL_OR_REFUSE(shop::run_order_service(service));
    return Exit::ok;
  }
  if (options.role == "inventory") {
    shop::InventoryServiceOptions service;
    service.database = (folder / "inventory.db").string();
    service.consumer = kConsumer;
    service.fix_file = (folder / "handler_is_fixed").string();
    service.lease_term = 500ms;
    service.batch_events_max = 200;
    service.window_events_max = 1000;
    return static_cast<Exit>(shop::inventory_service_main(service));
  }
  return refuse(Exit::usage, "no such role");
}

Expected<fs::path> make_folder(const DemoOptions& options) {
  std::error_code error;
  if (options.dir.empty()) {
    std::string pattern = (fs::temp_directory_path(error) / "dovetail-demo-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      return refuse(Exit::unavailable,
                    "cannot create a temporary folder; check $TMPDIR or use --dir");
    }
    return fs::path(pattern);
  }
  fs::create_directories(options.dir, error);
  if (error)
    return refuse(Exit::unavailable, options.dir + ": " + error.message() + "; check --dir");
  if (!fs::is_empty(options.dir, error) || error) {
    return refuse(Exit::rejected, options.dir + " is not empty; name a new folder");
  }
  return fs::absolute(options.dir);
}

Answer demo(const CommandContext& context, const DemoOptions& options) {
  if (!options.role.empty()) return play_role(options);
  const auto folder = make_folder(options);
  if (!folder) return tl::unexpected(folder.error());
  struct sigaction on_interrupt{};
  on_interrupt.sa_handler = [](int) { interrupted = true; };
  ::sigaction(SIGINT, &on_interrupt, nullptr);
  ::sigaction(SIGTERM, &on_interrupt, nullptr);

  Expected<Totals> totals = refuse(Exit::negative, "");
  {
    shop::Stage stage(context.json, stdout_is_terminal() && !options.plain);
    stage.say(
        "A shop. The order service writes orders into orders.db and publishes an event for each in "
        "the same\n"
        "transaction. A relay carries the events into inventory.db, where the inventory service "
        "moves the\n"
        "stock. Three processes, two files, no server. The relay and the inventory service are "
        "killed with\n"
        "kill -9 " +
        std::to_string(options.kills) + " times meanwhile.\n\n");
    totals = Director(options, *folder, stage).play();
  }
  const bool good = totals && totals->broken.empty();
  const bool keep = !options.dir.empty() || !good;
  std::error_code ignored;
  if (!keep) fs::remove_all(*folder, ignored);
  if (!totals) return tl::unexpected(totals.error());
  if (context.json) {
    print_json(json_of(*totals, keep ? *folder : fs::path()));
  } else {
    print("\nThe books of both services, side by side:\n\n" + table_of(*totals) + "\n");
    for (const std::string& promise : totals->broken) print("BROKEN PROMISE: " + promise + "\n");
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f s", totals->seconds);
    print(good ? std::string("Every order moved stock once, in order, in ") + seconds + ".\n"
               : "\n");
    if (keep) print("The files are in " + folder->string() + "\n");
  }
  return good ? Exit::ok : Exit::negative;
}

}  // namespace

void add_demo(Command& app) {
  const auto options = std::make_shared<DemoOptions>();
  Command sub = app.command(
      "demo", "Watch two services survive kill -9, and check that nothing was lost or doubled",
      "An order service, a relay and an inventory service run as separate processes on SQLite "
      "files.\n"
      "The relay and the inventory service are killed with SIGKILL several times. One order is "
      "poison: it is\n"
      "parked and later replayed. At the end the demo compares the books of both services; exit "
      "1 if they differ.",
      [options](const CommandContext& context) { return demo(context, *options); });
  sub.option("--orders", options->orders, "Number of orders").shows_default().range(20, 1'000'000);
  sub.option("--kills", options->kills, "Number of kills").shows_default().range(0, 1000);
  sub.option("--dir", options->dir, "Work in this new folder and keep it");
  sub.flag("--plain", options->plain, "Plain lines instead of an animated display");
  sub.option("--seed", options->seed, "Seed for the times of the kills");
  sub.option("--role", options->role, "").hidden();
}

}  // namespace dovetail::app
