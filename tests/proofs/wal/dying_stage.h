// What proofs about relays that die share: a server of their own, writers of every form, a relay
// that is a process and may die, and the comparison of what was committed with what was delivered.
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

// What is left in the end.
struct WalOutcome {
  std::size_t committed = 0;
  std::size_t lost = 0;
  std::size_t phantom = 0;   // delivered, and never committed
  std::size_t inverted = 0;  // first deliveries that are not the next of their key
  std::size_t damaged = 0;   // with another content than was published
  std::uint64_t repeated = 0;

  bool ok() const { return lost + phantom + inverted + damaged == 0; }
};

// A claim with these figures; `what` begins it.
void claim_whole(const WalOutcome& outcome, const std::string& what);

// On a server that is started for this program alone: slots wait for every transaction of a server.
// One thread, besides those of the writers.
class WalStage {
 public:
  WalStage();
  WalStage(const WalStage&) = delete;
  WalStage& operator=(const WalStage&) = delete;
  ~WalStage();

  // From here on a table has copies of all events. `deleted`: only for a moment, so that the log
  // alone has them.
  void copy_into_table(bool deleted);
  // A relay with these words on its command line.
  Process start(std::vector<std::string> words, const std::string& log = "relay.log") const;
  WalWritersOptions writers(std::uint64_t seed = 1) const;

  // Fails the test when that takes longer than any machine should need.
  bool wait_until(const std::string& what, const std::function<bool()>& condition) const;
  // The lease of a relay that is dead ends now: nobody has to wait for it.
  void end_lease();
  // Slots of this database, as soon as the server has noticed that nobody uses them.
  void drop_slots();
  // Everything that is committed now is in the book.
  bool is_delivered();
  // More than so many are not in the book. May be asked by one other thread, with a connection of
  // its own, as long as nobody else looks into the book.
  bool is_behind(postgres::Connection& connection, std::int64_t events);
  bool is_streaming();
  // By the relay's own account nothing is left to be read.
  bool is_drained() const;
  // Lets a relay deliver the rest, and stops it.
  void finish(const std::vector<std::string>& words);
  // Everything that was committed is in the book, or will never be.
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
