// For proofs about the inbox: an order service and an inventory service on PostgreSQL, and their
// books. Orders are placed for real; the inventory service is a process that may die.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "demo/process.h"
#include "kit/claims.h"
#include "proofs/relay/postgres_orders.h"

namespace dovetail::shop {

// The state at the end.
struct Outcome {
  Verdict verdict;
  std::vector<Entry> orders{};
  std::vector<Entry> movements{};
  std::int64_t told = 0;    // events about a movement
  std::int64_t known = 0;   // rows of the inbox
  bool sums_agree = false;  // ordered and taken pieces match
  std::size_t parked = 0;

  // Every order has moved the stock once, in order, with one event and one inbox row.
  bool is_once() const;
};

// A claim with these figures; it begins with `what`.
void claim_once(const Outcome& outcome, const std::string& what);

// One thread, besides the orders' thread.
class InboxStage {
 public:
  // Two empty databases. `seen_as` turns their connection strings into those of consumers.
  InboxStage(std::string orders, std::string stock);
  InboxStage(const InboxStage&) = delete;
  InboxStage& operator=(const InboxStage&) = delete;
  ~InboxStage();

  // Until it ends or is asked to stop.
  std::jthread place_orders(OrderServiceOptions options) const;
  // A consumer with these arguments, which reads the orders' outbox or a broker.
  Process start(std::vector<std::string> words, const std::string& log = "consumer.log") const;
  Process start_from(const std::string& from, std::vector<std::string> words,
                     const std::string& log) const;

  // Fails the test if it takes longer than any machine should need.
  bool wait_until(const std::string& what, const std::function<bool()>& condition) const;
  // Nothing is left to read, and, if `with_parked`, nothing is parked.
  bool drained(bool with_parked = true) const;
  // Ends the lease of a dead consumer, so that no one waits for it.
  void end_lease() const;
  // From now on the handler understands all orders; parked ones are replayed.
  void mend_the_handler() const;
  Outcome judge() const;

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t lines(const std::string& begin, const std::string& log = "consumer.log") const;

  const std::string orders;  // connection strings
  const std::string stock;
  // The connection strings that consumers use, if they differ.
  std::function<std::string(const std::string&)> seen_as = [](const std::string& same) {
    return same;
  };

  // For broken code, not for slow machines.
  static std::chrono::seconds patience();

 private:
  std::filesystem::path folder_;
};

}  // namespace dovetail::shop
