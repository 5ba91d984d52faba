// External handlers with a real endpoint: an inbox in a SQLite file and requests under claims, by
// processes that are stopped past every lease and killed at any moment.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/inbox/inbox.h"
#include "core/relay/relay.h"
#include "core/sinks/chained_sink.h"
#include "core/sinks/claimed_sink.h"
#include "core/testing/test_sinks.h"
#include "host/host.h"
#include "kit/claims.h"
#include "kit/eventually.h"
#include "server/test_endpoint.h"
#include "servers/servers.h"
#include "sqlite/inbox/inbox_store.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/outbox/source.h"
#include "sqlite/testing/test_file.h"
#include "sqlite/work/claims.h"
#include "webhook/sink.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using live::claim;

constexpr Duration kClaim = 4s;
constexpr Duration kLease = 1s;

Status count_effect(sqlite3* transaction, const Event& event) {
  Result<sqlite::Statement> insert =
      sqlite::Statement::prepare(transaction, "INSERT INTO effect (id) VALUES (?1)");
  if (!insert) return fail(insert.error());
  return insert->bind_text(1, event.id.to_string()).run();
}

// A consumer with one handler inside its transaction and an external one, until it is killed.
[[noreturn]] void consume(const std::string& path, const std::string& url) {
  Clock& clock = system_clock();
  sqlite::Reader reader{path, "mail", SourceKind::outbox};
  sqlite::SqliteLease lease(reader, clock, "test", boot_id(), kLease);
  sqlite::SqliteSource source(reader, clock);
  sqlite::SqliteParking parking(reader, clock);
  sqlite::SqliteInboxStore store(path, "mail.stock", count_effect, clock);
  Inbox inbox(store, {});
  sqlite::SqliteClaimStore claims(path, "mail.web", clock, boot_id());
  http::SinkOptions options;
  options.url = url;
  options.allow_private = true;
  http::HttpSink endpoint(options, clock);
  ClaimedSink claimed(claims, endpoint, clock, {.lease = kClaim, .attempts_max = 1000});
  ChainedSink chain({{borrowed(inbox)}, {borrowed(claimed)}});
  RelayMetrics metrics;
  RelayOptions relay_options;
  relay_options.attempts_max = 1000;
  relay_options.batch_events_max = 40;
  relay_options.key_retry = {Duration(10ms), Duration(100ms)};
  relay_options.connect_retry = {Duration(10ms), Duration(100ms)};
  Relay relay({source, chain, parking, lease, clock, metrics}, relay_options);
  (void)relay.run(std::stop_token{});
  _exit(1);
}

class InboxOutside : public testing::Test {
 protected:
  void SetUp() override {
    sqlite::Application application(file_.path);
    ASSERT_EQ(application.run("CREATE TABLE effect (id TEXT NOT NULL)"), SQLITE_OK);
    server_ = servers::find("http");
    path_ = "/outside-" + new_event_id().to_string();
  }
  void TearDown() override {
    for (const pid_t child : std::set<pid_t>(children_)) end(child);
  }
  pid_t start() {
    const std::string url = "http://127.0.0.1:" + server_.field("port") + path_ + "?delay=0.02";
    const pid_t child = fork();
    if (child == 0) consume(file_.path, url);
    children_.insert(child);
    return child;
  }
  void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    children_.erase(child);
  }
  // Not while it writes to the file: a stopped process keeps its lock.
  bool stop(pid_t child) {
    sqlite::Application application(file_.path);
    sqlite3_busy_timeout(application.connection, 100);
    for (int i = 0; i < 100; ++i) {
      kill(child, SIGSTOP);
      int status = 0;
      waitpid(child, &status, WUNTRACED);
      if (application.run("BEGIN IMMEDIATE") == SQLITE_OK)
        return application.run("ROLLBACK") == SQLITE_OK;
      kill(child, SIGCONT);
      std::this_thread::sleep_for(3ms);
    }
    return false;
  }
  void publish(int count) {
    sqlite::Application application(file_.path);
    ASSERT_TRUE(sqlite::prepare_connection(application.connection));
    ASSERT_EQ(application.run("BEGIN IMMEDIATE"), SQLITE_OK);
    for (int i = 0; i < count; ++i) {
      const std::size_t number =
          events_.size();  // continues over all calls, as the order along keys does
      const std::string key = "key" + std::to_string(number % 25);
      const std::string payload = std::to_string(number);
      NewEvent event;
      event.aggregate_type = "order";
      event.aggregate_id = key;
      event.type = "changed";
      event.payload = payload;
      event.topic = "orders";
      const auto id = sqlite::publish(application.connection, event);
      ASSERT_TRUE(id) << id.error().text;
      events_.push_back(id->to_string());
    }
    ASSERT_EQ(application.run("COMMIT"), SQLITE_OK);
  }
  std::int64_t number(const std::string& sql) {
    return sqlite::Application(file_.path).number(sql);
  }
  std::int64_t completed() {
    return number(
        "SELECT count(*) FROM dovetail_inbox WHERE consumer_id = "
        "(SELECT id FROM dovetail_consumer WHERE name = 'mail.web')");
  }
  // However long it takes, as long as there is progress.
  bool eventually_completed(std::int64_t count) {
    for (std::int64_t now = completed(); now < count; now = completed())
      if (!eventually([&] { return completed() > now; })) return false;
    return true;
  }

  struct Books {
    std::size_t lost = 0;
    std::size_t repeated = 0;  // requests of an event after its first
    std::size_t inverted = 0;  // first requests of a key that are out of order
    std::int64_t effects_twice = 0;
    std::int64_t effects = 0;
  };
  Books books() {
    Books found;
    std::map<std::string, int> times;
    std::map<int, int> last;
    for (const http::Recorded& one : http::requests_to(server_, path_)) {
      const std::string key = one.header("idempotency-key");
      // A structured text has quotes.
      const std::string id = key.starts_with('"') ? key.substr(1, key.size() - 2) : key;
      if (++times[id] > 1) {
        ++found.repeated;
        continue;
      }
      const int value = std::stoi(one.body);
      const auto [before, is_first] = last.try_emplace(value % 25, value);
      if (!is_first && before->second > value) ++found.inverted;
      before->second = value;
    }
    for (const std::string& id : events_)
      if (!times.contains(id)) ++found.lost;
    found.effects = number("SELECT count(*) FROM effect");
    found.effects_twice = found.effects - number("SELECT count(DISTINCT id) FROM effect");
    return found;
  }
  bool hold(const Books& found) const {
    return found.lost == 0 && found.inverted == 0 && found.effects_twice == 0 &&
           found.effects == static_cast<std::int64_t>(events_.size());
  }

  sqlite::TestFile file_;
  servers::Server server_;
  std::string path_;
  std::set<pid_t> children_;
  std::vector<std::string> events_;
};

TEST_F(InboxOutside, AProcessThatIsStoppedPastItsLeasesIsFencedAndNothingIsLost) {
  const int rounds = live::is_long() ? 10 : 1;
  const int count = 400;
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t before = completed();
    publish(count);
    const pid_t first = start();
    ASSERT_TRUE(eventually_completed(before + 50));
    ASSERT_TRUE(stop(first));
    const std::int64_t when_stopped = completed();
    const pid_t second = start();
    // It waits for the lane, then for the claims of running calls.
    ASSERT_TRUE(eventually_completed(std::min(when_stopped + 50, before + count)));
    kill(first, SIGCONT);
    ASSERT_TRUE(eventually_completed(before + count));
    end(first);
    end(second);
  }
  const Books found = books();
  const std::size_t most = 256 * static_cast<std::size_t>(rounds);
  claim(hold(found) && found.repeated <= most,
        "stopped past its leases %d times: %zu events, lost %zu, of a key out of order %zu, "
        "effects twice inside the transaction %lld, requests repeated %zu (at most %zu in flight)",
        rounds, events_.size(), found.lost, found.inverted,
        static_cast<long long>(found.effects_twice), found.repeated, most);
}

TEST_F(InboxOutside, AProcessThatIsKilledAtAnyMomentLosesNothing) {
  const int kills = live::is_long() ? 50 : 4;
  publish(kills * 60);
  Random random(static_cast<std::uint64_t>(kills));
  for (int i = 0; i < kills; ++i) {
    const std::int64_t before = completed();
    const pid_t child = start();
    ASSERT_TRUE(eventually_completed(std::min<std::int64_t>(before + 20, kills * 60)));
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(60)));
    end(child);
  }
  start();
  ASSERT_TRUE(eventually_completed(kills * 60));
  const Books found = books();
  const std::size_t most = 256 * static_cast<std::size_t>(kills);
  claim(hold(found) && found.repeated <= most,
        "killed %d times: %zu events, lost %zu, of a key out of order %zu, effects twice inside "
        "the transaction %lld, requests repeated %zu",
        kills, events_.size(), found.lost, found.inverted,
        static_cast<long long>(found.effects_twice), found.repeated);
}

}  // namespace
}  // namespace dovetail
