// For tests that break a server under a relay that reads its WAL: a server of the test,
// writers, a broker that can hang or be unreachable, and books that show that nothing was
// lost.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host/host.h"
#include "kit/claims.h"
#include "postgres/lane/lanes.h"
#include "postgres/testing/test_database.h"

namespace dovetail::live {

// A server that a test may break, with a standby if wanted.
class OwnServer {
 public:
  explicit OwnServer(const std::string& name);
  ~OwnServer();

  bool is_there() const { return !primary_->server().conninfo.empty(); }
  const std::string& missing() const { return primary_->server().missing; }
  const std::string& conninfo() const { return primary_->server().conninfo; }
  int port() const { return primary_->server().port(); }
  postgres::Connection connect(const std::string& database = "postgres") const;

  // Takes effect at once, or at the next start.
  void set(const std::string& setting, const std::string& value) const;
  void reset(const std::string& setting) const;

  // Like a power cut; then it starts again.
  bool crash() { return primary_->crash(); }
  // Like `pg_ctl stop -m fast`. Returns the seconds it took; more than `wait_max`: it still
  // runs.
  double stop_fast(double wait_max_s);
  bool start_again() { return primary_->again(); }

  // The primary dies, and the standby, which has no slots, takes over.
  void start_standby();
  postgres::Connection connect_to_standby() const;
  void promote();
  // The one that takes writes.
  std::string either(const std::string& database) const;

 private:
  std::string folder_;
  std::unique_ptr<servers::Started> primary_;
  std::unique_ptr<servers::Started> standby_;
};

// Until the end of the scope.
class Setting {
 public:
  Setting(const OwnServer& server, std::string name, const std::string& value)
      : server_(server), name_(std::move(name)) {
    server_.set(name_, value);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { server_.reset(name_); }

 private:
  const OwnServer& server_;
  std::string name_;
};

// What has arrived at the broker. Any thread.
class Books {
 public:
  void add(const Event& event);
  std::uint64_t count() const;
  std::uint64_t repeated() const;

  struct Balance {
    std::uint64_t committed = 0;  // in the table
    std::uint64_t lost = 0;
    std::uint64_t phantom = 0;   // not in the table
    std::uint64_t inverted = 0;  // along a key, among first deliveries
    std::uint64_t repeated = 0;
    bool is_even() const { return committed > 0 && lost == 0 && phantom == 0 && inverted == 0; }
  };
  // Compares them with the outbox, once everything is delivered.
  Balance compare(postgres::Connection& database) const;

 private:
  struct One {
    EventId id;
    std::string key;
    std::int64_t version;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::uint64_t> seen_;  // by id, how often
  std::vector<One> first_;                               // in order
  std::uint64_t repeated_ = 0;
};

// up: confirms everything. stuck: accepts everything and never answers. away: refuses connections.
enum class Broker : std::uint8_t { up, stuck, away };

// Both modes that read the WAL, or in the short form the more telling one.
std::vector<postgres::ReadMode> modes(postgres::ReadMode in_short);
postgres::LanesOptions how(postgres::ReadMode mode);
std::string said(const std::string& what, postgres::ReadMode mode);

// A database with an outbox, its writers, and a relay that reads it.
class WalStage {
 public:
  static constexpr int kWriters = 3;
  static constexpr std::int64_t kKeysOfOne = 20;

  explicit WalStage(OwnServer& server);
  ~WalStage();

  // Change accounts and publish their versions, in transactions of 1 to `rows_max` events, until
  // stop_writers(). They continue when the server is back.
  void start_writers(std::int64_t rows_max, std::chrono::milliseconds pause);
  void stop_writers() { writers_.clear(); }
  std::uint64_t committed() const { return committed_; }
  // Waits until that many more transactions are committed.
  void let_write(std::uint64_t transactions);

  // Uses the `options` about reading the WAL; the stage sets the rest.
  void start_relay(postgres::LanesOptions options);
  void stop_relay();
  const RelayMetrics& metrics() const { return lanes_->metrics(); }
  bool streams() const { return metrics().streams == 1; }
  // What an operator would have read.
  std::string log() const;
  bool log_has(const std::string& text) const { return contains(log(), text); }
  // The number of reports about how it reads.
  std::uint64_t changes() const;
  bool wait_for_stream(std::uint64_t starts_before = 0) const;
  // The relay's current slot; empty: none.
  std::string slot();
  // WAL that the server keeps for all slots of the cluster.
  std::int64_t retained_bytes();

  // Waits until everything in the table is delivered, and compares. Prints one claim.
  void check(const char* what);
  // `at`: another server, which may lack some of the first one's data.
  void check(const char* what, postgres::Connection& at);

  Books books;
  std::atomic<Broker> broker{Broker::up};
  OwnServer& server;
  std::string database;
  std::string conninfo;      // of the database
  postgres::Connection sql;  // the test's own connection to it

 private:
  void leave();
  void write(std::uint64_t place, std::int64_t rows_max, std::chrono::milliseconds pause,
             std::stop_token stop);

  std::atomic<std::uint64_t> committed_{0};
  std::vector<std::jthread> writers_;
  mutable std::mutex mutex_;
  std::string log_;
  std::unique_ptr<postgres::Lanes> lanes_;
  std::jthread relay_;
};

}  // namespace dovetail::live
