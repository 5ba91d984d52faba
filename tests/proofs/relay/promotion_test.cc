// The primary dies under load and its standby takes over: the same relay delivers everything that
// the new primary has, in order.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <set>

#include "dovetail/postgres.h"
#include "kit/claims.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"
#include "proofs/relay/running_relay.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::claim;

// The value of a word of a conninfo.
std::string word_of(const std::string& conninfo, const std::string& name) {
  const std::size_t at = conninfo.find(name + "=") + name.size() + 1;
  return conninfo.substr(at, conninfo.find(' ', at) - at);
}

// A primary and its standby, separate from other tests.
struct Folder {  // removed after its servers have stopped
  std::string path = ::testing::TempDir() + "dovetail_promotion_" + std::to_string(getpid());
  ~Folder() { std::filesystem::remove_all(path); }
};
struct Pair {
  Folder state;
  servers::Started primary{"postgres", state.path};
  servers::Started standby{"standby", state.path};

  std::string either() const {
    const std::string& first = primary.server().conninfo;
    const std::string& second = standby.server().conninfo;
    return "host=" + word_of(first, "host") + "," + word_of(second, "host") +
           " port=" + word_of(first, "port") + "," + word_of(second, "port") +
           " user=postgres dbname=postgres target_session_attrs=read-write";
  }
};

// First deliveries, in order.
struct Delivered {
  struct One {
    EventId id;
    std::string key;
    std::int64_t version;
  };
  std::mutex mutex;
  std::set<EventId> seen;
  std::vector<One> first;
  std::uint64_t repeated = 0;

  void add(Events events) {
    const std::lock_guard lock(mutex);
    for (const Event* event : events) {
      if (seen.insert(event->id).second) {
        first.push_back({event->id, std::string(event->aggregate_id), event->aggregate_version});
      } else {
        ++repeated;
      }
    }
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return first.size();
  }
};

// Changes accounts and publishes their versions, on whichever server takes writes.
void write(const std::string& conninfo, std::uint64_t seed, std::atomic<std::uint64_t>& committed,
           std::stop_token stop) {
  Random random(seed);
  Connection connection;
  while (!stop.stop_requested()) {
    if (!connection) {
      Result<Connection> opened = Connection::open(conninfo);
      if (opened) connection = std::move(*opened);
    }
    const Result<Rows> done =
        connection ? connection.query(
                         "WITH changed AS (UPDATE account SET version = version + 1 WHERE key = "
                         "$1 RETURNING key, version) SELECT dovetail.publish('account', key::text, "
                         "'changed', '{}', aggregate_version => version) FROM changed",
                         Params().int8(static_cast<std::int64_t>(random.below(100))))
                   : Result<Rows>(fail(Errc::unavailable, "no server takes writes"));
    if (done) {
      ++committed;
    } else {
      std::this_thread::sleep_for(20ms);
    }
  }
}

void check(Connection& server, Delivered& delivered, std::uint64_t committed_before) {
  const Result<Rows> rows = server.query("SELECT id FROM dovetail.outbox");
  ASSERT_TRUE(rows) << text_of(rows);
  std::set<EventId> there;
  for (std::size_t row = 0; row < rows->size(); ++row) there.insert(rows->uuid(row, 0));
  std::uint64_t lost = 0;
  for (const EventId& id : there) lost += delivered.seen.contains(id) ? 0 : 1;
  std::uint64_t inverted = 0;
  std::uint64_t not_there = 0;  // sent by the old primary, which did not replicate them
  std::map<std::string, std::int64_t> last;
  for (const Delivered::One& one : delivered.first) {
    if (!there.contains(one.id)) {
      ++not_there;
      continue;
    }
    if (one.version != last[one.key] + 1) ++inverted;
    last[one.key] = one.version;
  }
  claim(lost == 0 && inverted == 0,
        "promotion: of %zu events that the new primary has, %llu lost, %llu inverted, %llu sent "
        "twice; %llu were committed before, of which %llu were sent and did not reach it",
        there.size(), static_cast<unsigned long long>(lost),
        static_cast<unsigned long long>(inverted),
        static_cast<unsigned long long>(delivered.repeated),
        static_cast<unsigned long long>(committed_before),
        static_cast<unsigned long long>(not_there));
}

TEST(PostgresPromotion, WhatTheNewPrimaryHasIsDeliveredInOrder) {
  const std::uint64_t events = live::is_long() ? 50'000 : 1000;
  Pair pair;
  ASSERT_TRUE(pair.standby.server().missing.empty()) << pair.standby.server().missing;
  Result<Connection> primary = Connection::open(pair.primary.server().conninfo);
  ASSERT_TRUE(primary) << text_of(primary);
  ASSERT_TRUE(create_schema(*primary));
  must(*primary, "CREATE TABLE account (key bigint PRIMARY KEY, version bigint NOT NULL)");
  must(*primary, "INSERT INTO account SELECT k, 0 FROM generate_series(0, 99) AS k");
  Result<Connection> standby = Connection::open(pair.standby.server().conninfo);
  ASSERT_TRUE(standby) << text_of(standby);

  Delivered delivered;
  std::atomic<std::uint64_t> committed{0};
  LanesOptions options;
  options.conninfo = pair.either();
  options.relay = "promotion";
  options.lanes = 2;
  options.lease_term = 2s;
  options.heartbeat = 100ms;
  options.relay_options.connect_retry = {20ms, 200ms};
  live::RunningRelay relay(options, [&](Events sent) { delivered.add(sent); });
  std::uint64_t committed_before = 0;
  {
    std::vector<std::jthread> writers;
    for (std::uint64_t i = 0; i < 4; ++i)
      writers.emplace_back(
          [&, i](std::stop_token stop) { write(options.conninfo, i, committed, stop); });
    const auto until = [&](std::uint64_t wanted) {
      while (committed < wanted) {
        const std::uint64_t seen = committed;
        ASSERT_TRUE(eventually([&] { return committed > seen; })) << "at " << seen;
      }
    };
    until(events);
    ::kill(pair.primary.pid(), SIGQUIT);  // at once, without notice to the standby
    committed_before = committed;
    // Without waiting: WAL that is still to be replayed may conflict with the statement's snapshot.
    must(*standby, "SELECT pg_promote(false)");
    until(committed_before + events);
  }
  ASSERT_TRUE(eventually([&] {
    return number(*standby, "SELECT count(*) FROM dovetail.events WHERE state = 'pending'") == 0;
  }));
  check(*standby, delivered, committed_before);
  // The lanes reconnect on their own, so they may be done before the connection that tells of it.
  claim(eventually([&] { return contains(relay.log(), "another server has taken over"); }),
        "promotion: the log tells of it");
  if (::testing::Test::HasFailure()) std::printf("%s", relay.log().c_str());
}

}  // namespace
}  // namespace dovetail::postgres
