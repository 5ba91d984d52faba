// What can happen around a working consumer: its handler ends the process, it loses its machine for
// a while, links are cut, the server crashes. Nothing is lost, doubled or reordered, and no
// innocent event is parked.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "postgres/operate/admin.h"
#include "postgres/testing/test_database.h"
#include "proofs/inbox/inbox_stage.h"
#include "proofs/inbox/postgres_stock.h"
#include "servers/tcp_proxy.h"

namespace dovetail::shop {
namespace {

using namespace std::chrono_literals;
using live::claim;
using live::is_long;
using postgres::number;
using postgres::TestDatabase;

constexpr std::int64_t kDeadlyOrder = 20;
constexpr std::uint32_t kAttemptsMax = 5;

OrderServiceOptions without_end() {
  OrderServiceOptions service;
  service.orders = 1'000'000'000;
  service.products = 6;
  service.pause = 4ms;
  return service;
}

void finish(InboxStage& stage, std::vector<Process>& consumers) {
  stage.wait_until("all is applied", [&] { return stage.drained(); });
  for (Process& consumer : consumers) consumer.send(SIGTERM);
  for (Process& consumer : consumers) EXPECT_EQ(consumer.wait(InboxStage::patience()), 0);
}

class InboxOutage : public testing::Test {
 protected:
  TestDatabase orders_;
  TestDatabase stock_;
  InboxStage stage_{orders_.conninfo, stock_.conninfo};
  std::mt19937_64 random_{7};
};

// All orders of products other than that of `order`, and how they were applied.
Verdict of_other_products(const Outcome& outcome, std::int64_t order) {
  std::set<std::string> left_out;
  for (const Entry& entry : outcome.orders)
    if (entry.order == order) left_out.insert(entry.product);
  const auto others = [&](const std::vector<Entry>& entries) {
    std::vector<Entry> kept;
    std::copy_if(entries.begin(), entries.end(), std::back_inserter(kept),
                 [&](const Entry& entry) { return !left_out.contains(entry.product); });
    return kept;
  };
  return compare_books(others(outcome.orders), others(outcome.movements));
}

TEST_F(InboxOutage, AHandlerThatSegfaultsOnOneEventIsParkedAndItsNeighboursAreProcessed) {
  OrderServiceOptions service = without_end();
  service.deadly_order = kDeadlyOrder;
  service.orders = is_long() ? 5000 : 300;
  std::uint32_t deaths = 0;
  std::vector<Process> consumers(1);
  const auto supervise = [&] {
    if (consumers[0].valid() && consumers[0].running()) return;
    if (consumers[0].valid()) {
      EXPECT_EQ(consumers[0].wait(0ms), 128 + SIGSEGV);
      ++deaths;
      stage_.end_lease();
    }
    consumers[0] = stage_.start({"--lease", "10000", "--batch", "50"});
  };
  {
    std::jthread customers = stage_.place_orders(service);
    stage_.wait_until("the deadly order is parked", [&] {
      supervise();
      postgres::Connection connection = orders_.connect();
      return number(connection, "SELECT count(*) FROM dovetail.parked WHERE state = 'parked'") == 1;
    });
    customers.join();
  }
  stage_.wait_until("the rest is applied", [&] {
    supervise();
    return stage_.drained(false);
  });
  const auto heads = postgres::list_parked(orders_.conninfo, {.heads_only = true});
  ASSERT_TRUE(heads && heads->size() == 1) << (heads ? heads->size() : 0);
  const Verdict neighbours = of_other_products(stage_.judge(), kDeadlyOrder);
  // The first death, in the middle of a batch, does not show which event caused it.
  claim(deaths <= kAttemptsMax + 1 && heads->front().attempts == kAttemptsMax && neighbours.ok(),
        "a handler that segfaults on one event: parked after %u deaths, %u attempts, its "
        "neighbours: %zu lost, %zu doubled, %zu out of order",
        deaths, heads->front().attempts, neighbours.lost, neighbours.doubled, neighbours.reordered);
  EXPECT_NE(heads->front().reason.find("ended the process"), std::string::npos)
      << heads->front().reason;

  stage_.mend_the_handler();
  finish(stage_, consumers);
  claim_once(stage_.judge(), "the same, mended and replayed");
}

// Like a process that loses its machine for a while: another one takes over; when the first
// continues in the middle of its work, it does no harm.
TEST(InboxPause, BeyondTheLeaseAtEveryPointDoesNoHarm) {
  constexpr const char* kPoints[] = {"received",  "inserted", "applied",
                                     "committed", "settled",  "flushed"};
  constexpr auto kLease = 1000ms;
  std::vector<std::jthread> plays;
  for (const char* const point : kPoints) {
    plays.emplace_back([point, kLease] {
      SCOPED_TRACE(point);
      const TestDatabase orders;
      const TestDatabase stock;
      InboxStage stage(orders.conninfo, stock.conninfo);
      std::vector<Process> consumers;
      const std::string lease = std::to_string(kLease.count());
      {
        const std::jthread customers = stage.place_orders(without_end());
        consumers.push_back(
            stage.start({"--lease", lease, "--stop", point, "--times", "4"}, "a.log"));
        stage.wait_until("the first has the lease",
                         [&] { return stage.lines("started", "a.log") > 0; });
        consumers.push_back(stage.start({"--lease", lease}, "b.log"));
        stage.wait_until("it stands still", [&] { return stage.lines("stopping", "a.log") > 0; });
        stage.wait_until("the other has taken over",
                         [&] { return stage.lines("started", "b.log") > 0; });
        std::this_thread::sleep_for(2 * kLease);
        consumers[0].send(SIGCONT);
        stage.wait_until("the first knows",
                         [&] { return stage.lines("session_lost", "a.log") > 0; });
      }
      finish(stage, consumers);
      claim_once(stage.judge(), std::string("stopped beyond its lease at ") + point);
    });
  }
}

// It stalls while it holds rows that another one wants; the server cannot see that.
TEST_F(InboxOutage, AConsumerThatStandsStillInATransactionHoldsAnotherUpForALimitedTime) {
  std::vector<Process> consumers;
  const std::vector<std::string> words = {"--lease", "1000", "--idle", "4000"};
  {
    const std::jthread customers = stage_.place_orders(without_end());
    std::vector<std::string> stopped = words;
    stopped.insert(stopped.end(), {"--stop", "applied", "--times", "4"});
    const Process gone = stage_.start(stopped, "a.log");
    stage_.wait_until("it stands still", [&] { return stage_.lines("stopping", "a.log") > 0; });
    consumers.push_back(stage_.start(words, "b.log"));
    const std::int64_t before = count_postgres_movements(stock_.conninfo);
    stage_.wait_until("the other goes on",
                      [&] { return count_postgres_movements(stock_.conninfo) > before + 20; });
  }
  finish(stage_, consumers);
  claim_once(stage_.judge(), "stopped for ever in the middle of a transaction");
}

TEST_F(InboxOutage, LinksThatAreCutOrLoseAnswersDoNoHarm) {
  servers::TcpProxy link(servers::find("postgres").port());
  stage_.seen_as = [&link](const std::string& conninfo) {
    return conninfo + " host=127.0.0.1 sslmode=disable port=" + std::to_string(link.port());
  };
  const int faults = is_long() ? 200 : 12;
  std::vector<Process> consumers;
  {
    const std::jthread customers = stage_.place_orders(without_end());
    for (const char* const log : {"a.log", "b.log"})
      consumers.push_back(stage_.start({"--lease", "1000"}, log));
    stage_.wait_until("one of them works",
                      [&] { return count_postgres_movements(stock_.conninfo) > 0; });
    for (int fault = 0; fault < faults; ++fault) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50 + random_() % 400));
      if (fault % 3 == 0) link.cut();
      if (fault % 3 == 1) link.lose_answers(random_() % 2000);
      if (fault % 3 == 2) {
        link.stall();
        std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 300));
        link.cut();
        link.flow();
      }
    }
  }
  finish(stage_, consumers);
  claim_once(stage_.judge(),
             "links cut, stalled or without answers, " + std::to_string(faults) + " times");
}

// As in applications: three processes that share the keys.
TEST_F(InboxOutage, ConsumersThatShareTheKeysAreKilledAndStoppedAndDoNoHarm) {
  const int kills = is_long() ? 100 : 5;
  const std::vector<std::string> words = {"--as", "consumer", "--lease", "1500"};
  const auto log_of = [](std::size_t number) { return std::to_string(number) + ".log"; };
  std::vector<Process> consumers;
  {
    OrderServiceOptions service = without_end();
    service.products = 24;
    const std::jthread customers = stage_.place_orders(service);
    for (std::size_t i = 0; i < 3; ++i) consumers.push_back(stage_.start(words, log_of(i)));
    for (int kill = 0; kill < kills; ++kill) {
      const std::int64_t before = count_postgres_movements(stock_.conninfo);
      stage_.wait_until("they work",
                        [&] { return count_postgres_movements(stock_.conninfo) > before + 10; });
      const std::size_t victim = random_() % consumers.size();
      if (kill % 3 == 2) {
        consumers[victim].send(SIGSTOP);
        std::this_thread::sleep_for(3s);
        consumers[victim].send(SIGCONT);
      } else {
        EXPECT_TRUE(consumers[victim].running()) << "ended by itself";
        consumers[victim].kill();
        consumers[victim] = stage_.start(words, log_of(victim));
      }
    }
  }
  finish(stage_, consumers);
  claim_once(stage_.judge(),
             "three consumers of four lanes killed or stopped beyond their leases, " +
                 std::to_string(kills) + " times");
}

TEST(InboxServer, ThatCrashesAndRecoversUnderLoadDoesNoHarm) {
  servers::Started server("postgres");
  const std::string conninfo = server.server().conninfo;
  ASSERT_NE(conninfo, "") << server.server().missing;
  {
    auto admin = postgres::Connection::open(conninfo);
    ASSERT_TRUE(admin);
    postgres::must(*admin, "CREATE DATABASE orders");
    postgres::must(*admin, "CREATE DATABASE stock");
  }
  InboxStage stage(servers::with_database(conninfo, "orders"),
                   servers::with_database(conninfo, "stock"));
  const int crashes = is_long() ? 20 : 2;
  std::vector<Process> consumers;
  {
    const std::jthread customers = stage.place_orders(without_end());
    for (const char* const log : {"a.log", "b.log"})
      consumers.push_back(stage.start({"--lease", "1000"}, log));
    for (int crash = 0; crash < crashes; ++crash) {
      const std::int64_t before = count_postgres_movements(stage.stock);
      stage.wait_until("they work again",
                       [&] { return count_postgres_movements(stage.stock) > before + 20; });
      ASSERT_TRUE(server.crash());
    }
  }
  finish(stage, consumers);
  claim_once(stage.judge(),
             "PostgreSQL crashed and recovered " + std::to_string(crashes) + " times under load");
}

}  // namespace
}  // namespace dovetail::shop
