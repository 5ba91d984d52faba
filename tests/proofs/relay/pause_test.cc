// A relay is stopped for three lease terms at each named point, another one takes over,
// and the first one continues: it sends nothing more, and none of its writes is
// accepted.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "demo/process.h"
#include "dovetail/postgres.h"
#include "postgres/testing/test_database.h"
#include "proofs/relay/postgres_orders.h"
#include "servers/standstill.h"

namespace dovetail::shop {
namespace {

using namespace std::chrono_literals;
using postgres::number;

constexpr std::chrono::milliseconds kLease = 500ms;
constexpr std::int64_t kOrders = 600;

// Lines of a relay, told apart by their first word, as dovetail_pausing_relay writes them.
using Lines = std::vector<std::string>;

bool begins(const std::string& line, std::string_view with) { return line.starts_with(with); }

std::size_t count_of(const Lines& lines, std::string_view with) {
  std::size_t count = 0;
  for (const std::string& line : lines) count += begins(line, with) ? 1 : 0;
  return count;
}

// The number after `name` in the last line with that beginning; -1: none.
std::int64_t number_in(const Lines& lines, std::string_view with, const std::string& name) {
  std::int64_t found = -1;
  for (const std::string& line : lines)
    if (begins(line, with)) found = std::atoll(line.c_str() + line.rfind(name) + name.size());
  return found;
}

struct Point {
  const char* name;
  const char* refused = "";      // the one write that reaches the database and is refused
  std::size_t refusals_min = 0;  // whether it is certainly tried
  std::size_t written_max = 0;   // batches that no lease can stop any more
};

class Stage {
 public:
  explicit Stage(const Point& point) : point_(point) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "dovetail-pause-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    inventory_.database = file("inventory.db");
    Status made = open_postgres_order_books(database_.conninfo);
    EXPECT_TRUE(made) << text_of(made);
    made = open_stock_books(inventory_.database);
    EXPECT_TRUE(made) << text_of(made);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() { std::filesystem::remove_all(folder_); }

  void play();

 private:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  Process start(const char* name, const char* point) const {
    return Process::start({DOVETAIL_PAUSING_RELAY, database_.conninfo, inventory_.database,
                           std::to_string(kLease.count()), point},
                          file(name));
  }
  Lines lines(const char* name) const {
    std::ifstream in(file(name));
    Lines all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  bool says(const char* name, std::string_view what, std::size_t times = 1) const {
    return eventually([&] { return count_of(lines(name), what) >= times; });
  }
  void take_orders_and_refuse_one();
  void check_the_stopped_relay() const;
  void check_the_database();
  void check_the_books();

  const Point point_;
  std::filesystem::path folder_;
  postgres::TestDatabase database_;
  InventoryServiceOptions inventory_;
  Lines all_of_a_;
  const servers::Standstill standstill_;
};

void Stage::take_orders_and_refuse_one() {
  OrderServiceOptions service;
  service.database = database_.conninfo;
  service.orders = kOrders / 2;
  service.pause = 4ms;
  ASSERT_TRUE(run_postgres_order_service(service));
  // Larger than the mailbox accepts; it blocks a key of its own.
  postgres::Connection connection = database_.connect();
  postgres::must(connection,
                 "SELECT dovetail.publish('poison', 'one', 'T', repeat('x', 2000), content_type => "
                 "'text/plain'), "
                 "dovetail.publish('poison', 'one', 'T', 'behind'::bytea)");
  service.first_order += service.orders;
  ASSERT_TRUE(run_postgres_order_service(service));
}

void Stage::play() {
  Process a = start("a.log", point_.name);
  ASSERT_TRUE(says("a.log", "acquired"));
  std::jthread customers([this] { take_orders_and_refuse_one(); });
  ASSERT_TRUE(says("a.log", "stopping"));
  Process b = start("b.log", "");
  std::this_thread::sleep_for(3 * kLease);
  ASSERT_TRUE(says("b.log", "written", 10));
  const std::size_t before = count_of(lines("a.log"), "acquired");
  a.send(SIGCONT);
  ASSERT_TRUE(says("a.log", "session_lost"));
  customers.join();
  // The stopped relay gets the lane back unless the other one has lost it already on a slow
  // machine.
  b.send(SIGTERM);
  EXPECT_EQ(b.wait(90s), 0);
  ASSERT_TRUE(says("a.log", "acquired", before + 1));
  postgres::Connection connection = database_.connect();
  EXPECT_TRUE(eventually([&] {
    return number(connection,
                  "SELECT sum(delivered_total + parked_total - replayed_total) FROM "
                  "dovetail.relay_lane") >=
           number(connection, "SELECT count(*) FROM dovetail.outbox");
  }));
  a.send(SIGTERM);
  EXPECT_EQ(a.wait(90s), 0);
  all_of_a_ = lines("a.log");
  check_the_stopped_relay();
  check_the_database();
  check_the_books();
}

// From its continuation until it had the lane again.
void Stage::check_the_stopped_relay() const {
  const auto is = [](std::string_view with) {
    return [with](const std::string& line) { return begins(line, with); };
  };
  const auto stopped = std::find_if(all_of_a_.begin(), all_of_a_.end(), is("stopping"));
  const auto on = std::find_if(stopped, all_of_a_.end(), is("went on"));
  const auto again = std::find_if(on, all_of_a_.end(), is("acquired"));
  const Lines between(on, again);
  EXPECT_EQ(count_of(between, "sent"), 0U) << "handed to the sink without a lease";
  EXPECT_LE(count_of(between, "written"), point_.written_max) << "published without a lease";
  EXPECT_LE(number_in(between, "written", "new "), 0) << "what the other had published already";
  if (standstill_.is_below(kLease / 3)) {
    EXPECT_EQ(number_in(between, "session_lost", "fenced "),
              number_in({*stopped}, "stopping", "fenced ") + 1)
        << "a refusal was not counted";
  }
  for (const std::string_view write : {"settle", "park", "renew"}) {
    const std::size_t tried = count_of(between, std::string(write) + ": stopped");
    EXPECT_LE(tried, write == point_.refused ? 1U : 0U) << write;
    if (write == point_.refused) {
      EXPECT_GE(tried, point_.refusals_min) << write;
    }
  }
  EXPECT_GE(number_in({*again}, "acquired", "epoch "),
            number_in({*stopped}, "stopping", "epoch ") + 2);
}

// Each event is settled by one accepted write: a write of a stale owner would count twice.
void Stage::check_the_database() {
  postgres::Connection connection = database_.connect();
  EXPECT_EQ(
      number(
          connection,
          "SELECT sum(delivered_total + parked_total - replayed_total) FROM dovetail.relay_lane"),
      number(connection, "SELECT count(*) FROM dovetail.outbox"));
  EXPECT_EQ(number(connection, "SELECT sum(parked_total) FROM dovetail.relay_lane"), 2);
  EXPECT_EQ(number(connection,
                   "SELECT count(*) FROM dovetail.parked WHERE state = 'parked' AND "
                   "at_head AND attempts = 1"),
            1);
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.parked"), 2);
}

void Stage::check_the_books() {
  std::jthread inventory([this](std::stop_token stop) {
    const Status ended = run_inventory_service(inventory_, stop);
    EXPECT_TRUE(ended) << text_of(ended);
  });
  Books books;
  ASSERT_TRUE(read_postgres_order_books(database_.conninfo, books));
  EXPECT_TRUE(eventually([&] {
    return count_movements(inventory_.database) >= static_cast<std::int64_t>(books.orders.size());
  }));
  inventory.request_stop();
  inventory.join();
  ASSERT_TRUE(read_stock_books(inventory_.database, books));
  const Verdict verdict = compare_books(books.orders, books.movements);
  for (const std::string& example : verdict.examples) ADD_FAILURE() << example;
  EXPECT_EQ(books.quantity_ordered, books.stock_taken);
  std::printf("%-9s  %zu orders: %zu lost, %zu phantom, %zu double effects, %zu reordered\n",
              point_.name, books.orders.size(), verdict.lost, verdict.phantom, verdict.doubled,
              verdict.reordered);
}

// All at the same time, because they mostly wait.
TEST(PostgresPause, ARelayThatWasStoppedBeyondItsLeaseSendsAndWritesNothingMore) {
  constexpr Point kPoints[] = {{"claimed"},
                               {"sent"},
                               {"landing", "settle", 0, 1},
                               {"confirmed", "settle"},
                               {"settling", "settle", 1},
                               {"parking", "park", 1},
                               {"renewing", "renew", 1}};
  std::vector<std::jthread> plays;
  for (const Point& point : kPoints)
    plays.emplace_back([&point] {
      SCOPED_TRACE(point.name);
      Stage(point).play();
    });
}

}  // namespace
}  // namespace dovetail::shop
