// For proofs about dying relays: their own server, writers of every form, a relay process that may
// die, and the comparison of committed and delivered events.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "demo/process.h"
#include "postgres/testing/test_database.h"
#include "proofs/wal/delivery_book.h"
#include "proofs/wal/writers.h"

namespace dovetail::shop {

// The state at the end.
struct WalOutcome {
  std::size_t committed = 0;
  std::size_t lost = 0;
  std::size_t phantom = 0;   // delivered but never committed
  std::size_t inverted = 0;  // first deliveries that are not the next of their key
  std::size_t damaged = 0;   // with another content than published
  std::uint64_t repeated = 0;

  bool ok() const { return lost + phantom + inverted + damaged == 0; }
};

// A claim with these figures; it begins with `what`.
void claim_whole(const WalOutcome& outcome, const std::string& what);

// Starts a server for this program alone, because slots wait for every transaction of a server. One
// thread, besides the writers' threads.
class WalStage {
 public:
  WalStage();
  WalStage(const WalStage&) = delete;
  WalStage& operator=(const WalStage&) = delete;
  ~WalStage();

  // From now on a table has copies of all events. `deleted`: only for a moment, so that only the
  // WAL has them.
  void copy_into_table(bool deleted);
  // A relay with these arguments.
  Process start(std::vector<std::string> words, const std::string& log = "relay.log") const;
  WalWritersOptions writers(std::uint64_t seed = 1) const;

  // Fails the test if it takes longer than any machine should need.
  bool wait_until(const std::string& what, const std::function<bool()>& condition) const;
  // Ends the lease of a dead relay, so that no one waits for it.
  void end_lease();
  // Drops the slots of this database once the server has noticed that they are unused.
  void drop_slots();
  // Everything committed so far is in the book.
  bool is_delivered();
  // More than `events` are not in the book. One other thread may call it, with its own connection,
  // if nobody else reads the book meanwhile.
  bool is_behind(postgres::Connection& connection, std::int64_t events);
  bool is_streaming();
  // The relay itself says that nothing is left to read.
  bool is_drained() const;
  // Lets a relay deliver the rest, then stops it.
  void finish(const std::vector<std::string>& words);
  // Everything committed is in the book, or never will be.
  WalOutcome judge();

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t lines(const std::string& begin, const std::string& log = "relay.log") const;
  postgres::Connection& connection() { return connection_; }
  const std::string& conninfo() const { return database_.conninfo; }
  DeliveryBook& book() { return book_; }

  // For broken code, not for slow machines.
  static std::chrono::seconds patience();
  static constexpr std::int64_t kKeys = 40;

 private:
  std::filesystem::path folder_;
  postgres::TestDatabase database_;
  postgres::Connection connection_;
  DeliveryBook book_{""};
  bool has_copies_ = false;
};

}  // namespace dovetail::shop
