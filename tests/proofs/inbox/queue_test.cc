// The inbox queue under load: workers that die, stall, fail and release, with and without a pooler;
// and what a blocked key with many events behind it costs the others.
#include <libpq-fe.h>
#include <sys/socket.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "kit/claims.h"
#include "postgres/testing/test_queue.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 8;

struct Counts {
  std::atomic<int> completed{0}, died{0}, stalled{0}, refused{0}, failed{0}, released{0},
      serialised{0}, unexpected{0};
};

// Takes events and treats them badly, in different ways.
class Worker {
 public:
  Worker(std::string conninfo, unsigned seed, Counts& counts)
      : conninfo_(std::move(conninfo)), random_(seed), counts_(counts) {}

  void run(const std::atomic<bool>& finished) {
    while (!finished) {
      if (!connection_) connection_ = Connection::open(conninfo_).value_or(Connection());
      if (!connection_) continue;
      const auto received = receive(connection_, "stock", 1 + dice(5), "300 ms", 1'000'000);
      if (!received) {
        unexpected("receive", received.error());
        continue;
      }
      if (received->empty()) std::this_thread::sleep_for(3ms);
      for (const Received& one : *received)
        if (connection_) treat(one);
    }
  }

 private:
  int dice(int sides) { return std::uniform_int_distribution<int>(0, sides - 1)(random_); }

  void treat(const Received& one) {
    const int fate = dice(100);
    if (fate < 8) {
      give_back("fail", one, counts_.failed);
    } else if (fate < 14) {
      give_back("release", one, counts_.released);
    } else {
      if (fate < 18) {
        ++counts_.stalled;
        std::this_thread::sleep_for(350ms);  // past the lease
      }
      complete(one, fate >= 80, fate >= 95);
    }
  }

  void give_back(const std::string& function, const Received& one, std::atomic<int>& count) {
    const std::string more = function == "fail" ? ", 'not now', '10 ms'" : "";
    const Result<Rows> done =
        connection_.query("SELECT dovetail." + function + "('stock', $1, $2" + more + ")",
                          Params().uuid(one.id).int8(one.epoch));
    ++count;
    if (!done) note(function, done.error());
  }

  void complete(const Received& one, bool repeatable, bool dies) {
    const Status status = effect_and_complete(one, repeatable);
    if (dies) {
      // Like a killed process: the server finds the connection closed, with an open transaction.
      ++counts_.died;
      shutdown(PQsocket(connection_.get()), SHUT_RDWR);
      connection_.close();
      return;
    }
    if (status) {
      const Status committed = connection_.execute("COMMIT");
      if (committed) ++counts_.completed;
      if (!committed) unexpected("COMMIT", committed.error());
      return;
    }
    note("complete", status.error());
    if (connection_) static_cast<void>(connection_.execute("ROLLBACK"));
  }

  Status effect_and_complete(const Received& one, bool repeatable) {
    DOVETAIL_TRY(connection_.execute(repeatable ? "BEGIN ISOLATION LEVEL REPEATABLE READ"
                                                : "BEGIN ISOLATION LEVEL READ COMMITTED"));
    DOVETAIL_TRY(connection_.query("INSERT INTO effect (id, key, n) VALUES ($1, $2, $3::int)",
                                   Params().uuid(one.id).text(one.key).unknown(one.type)));
    return settle(connection_, "complete", "stock", one);
  }

  void note(const std::string& what, const Error& error) {
    if (error.code == Errc::stopped) {
      ++counts_.refused;
    } else if (contains(error.text, "40001")) {
      ++counts_.serialised;
    } else {
      unexpected(what, error);
    }
  }
  void unexpected(const std::string& what, const Error& error) {
    ++counts_.unexpected;
    ADD_FAILURE() << what << ": " << error.text;
  }

  std::string conninfo_;
  std::mt19937 random_;
  Counts& counts_;
  Connection connection_{};
};

// Numbers the events of each key; some of its transactions roll back.
int produce(Connection& connection, int events, unsigned seed) {
  std::mt19937 random(seed);
  const auto dice = [&](int sides) {
    return std::uniform_int_distribution<int>(0, sides - 1)(random);
  };
  std::map<std::string, int> numbers;
  int produced = 0;
  while (produced < events) {
    std::map<std::string, int> next = numbers;
    std::vector<Line> lines;
    for (int left = 1 + dice(dice(2) == 0 ? 2 : 20); left > 0; --left) {
      const int place = dice(25);
      const std::string key = place < 20 ? "key " + std::to_string(dice(place + 1)) : "";
      lines.push_back({key, std::to_string(++next[key])});
    }
    must(connection, "BEGIN");
    fill(connection, "stock", lines);
    const bool commits = dice(10) > 0;
    must(connection, commits ? "COMMIT" : "ROLLBACK");
    if (!commits) continue;
    numbers = std::move(next);
    produced += static_cast<int>(lines.size());
  }
  return produced;
}

class InboxQueue : public testing::TestWithParam<const char*> {};

TEST_P(InboxQueue, EightWorkersApplyEachEventOnceAndInOrderWhateverHappensToThem) {
  TestDatabase database;
  Connection owner = database.connect();
  ASSERT_TRUE(create_schema(owner));
  must(owner,
       "CREATE TABLE effect (seq bigserial, id uuid, key text, n int); SELECT "
       "dovetail.consumer_id('stock')");
  const std::string conninfo =
      servers::with_database(servers::find(GetParam()).conninfo, database.name);
  Counts counts;
  std::atomic<bool> finished{false};
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < kWorkers; ++i)
    workers.emplace_back([&, i] { Worker(conninfo, i, counts).run(finished); });
  const int produced = produce(owner, live::is_long() ? 20'000 : 500, 7);
  const auto end = std::chrono::steady_clock::now() + (live::is_long() ? 20min : 100s);
  while (number(owner, "SELECT count(*) FROM dovetail.queue") > 0 &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(20ms);
  finished = true;
  for (std::thread& worker : workers) worker.join();
  const std::int64_t left = number(owner, "SELECT count(*) FROM dovetail.queue");
  const std::int64_t effects = number(owner, "SELECT count(*) FROM effect");
  const std::int64_t twice = number(owner, "SELECT count(*) - count(DISTINCT id) FROM effect");
  const std::int64_t inverted = number(
      owner,
      "SELECT count(*) FROM (SELECT n, lag(n) OVER (PARTITION BY key ORDER BY seq) AS before FROM "
      "effect WHERE key <> '') AS e WHERE n <> coalesce(before, 0) + 1");
  live::claim(
      left == 0 && effects == produced && twice == 0 && inverted == 0 && counts.unexpected == 0,
      "%s: %d events, %d workers: %lld left, %lld effects, %lld twice, %lld out of order "
      "(%d died, %d stalled, %d refused, %d failed, %d given back, %d to be repeated)",
      GetParam(), produced, kWorkers, static_cast<long long>(left), static_cast<long long>(effects),
      static_cast<long long>(twice), static_cast<long long>(inverted), counts.died.load(),
      counts.stalled.load(), counts.refused.load(), counts.failed.load(), counts.released.load(),
      counts.serialised.load());
}

INSTANTIATE_TEST_SUITE_P(Servers, InboxQueue, testing::Values("postgres", "pgbouncer"));

// How many pages of its cache the server reads for one call.
int pages_of(Connection& connection, const std::string& call) {
  const Result<Rows> plan = connection.query("EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM " + call);
  EXPECT_TRUE(plan) << text_of(plan);
  for (std::size_t row = 0; plan && row < plan->size(); ++row) {
    const std::string line(plan->text(row, 0));
    if (const std::size_t at = line.find("shared hit="); at != std::string::npos)
      return std::stoi(line.substr(at + 11));
  }
  return -1;
}

TEST(InboxQueueCost, ABlockedKeyWithALongLineCostsTheOthersNothing) {
  constexpr int kLine = 100'000;
  TestDatabase database;
  Connection owner = database.connect();
  owner.set_timeout(2min);
  ASSERT_TRUE(create_schema(owner));
  const auto others = [&](int count) {
    std::vector<Line> lines;
    for (int i = 0; i < count; ++i) lines.push_back({"other " + std::to_string(i), "a"});
    fill(owner, "stock", lines);
  };
  const auto cost = [&] {
    std::vector<double> pages;
    for (int i = 0; i < 20; ++i)
      pages.push_back(pages_of(owner, "dovetail.receive('stock', 1, '1 h')"));
    return live::quantile(pages, 0.5);
  };
  others(100);
  const double before = cost();
  must(owner, "TRUNCATE dovetail.queue");
  fill(owner, "stock", {{"hot", "head"}});
  ASSERT_EQ(types(receive(owner, "stock")), "head");
  for (int done = 0; done < kLine;) {
    std::vector<Line> lines(done % 3 == 0 ? 1 : 2000, Line{"hot", "behind"});
    for (Line& line : lines) line.id = new_event_id();
    done += static_cast<int>(lines.size());
    fill(owner, "stock", lines);
  }
  others(100);
  const int first = pages_of(owner, "dovetail.receive('stock', 1, '1 h')");
  const double after = cost();
  // Walking over the waiting events would take thousands. Index entries of removed rows stay, and
  // are read, while another session on this server has an old snapshot.
  live::claim(after <= before + 200,
              "receive() looks at %.0f pages without and %.0f with %d events behind a blocked key "
              "(the first time %d, to put aside what came)",
              before, after, kLine, first);
  EXPECT_EQ(number(owner, "SELECT held FROM dovetail.queues"), 22) << "the head, and 21 others";
}

}  // namespace
}  // namespace dovetail::postgres
