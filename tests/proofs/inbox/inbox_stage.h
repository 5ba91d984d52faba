// What proofs about the inbox share: an order service and an inventory service on PostgreSQL, the
// one really placing orders, the other a process that may die, and the books of both.
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

// What is left in the end.
struct Outcome {
  Verdict verdict;
  std::vector<Entry> orders{};
  std::vector<Entry> movements{};
  std::int64_t told = 0;    // events that tell of a movement
  std::int64_t known = 0;   // rows of the inbox
  bool sums_agree = false;  // pieces ordered and taken
  std::size_t parked = 0;

  // Every order has moved the stock once, in order, was told of once and is remembered once.
  bool is_once() const;
};

// A claim with these figures; `what` begins it.
void claim_once(const Outcome& outcome, const std::string& what);

// One thread, besides that of the orders.
class InboxStage {
 public:
  // Two empty databases. Consumers reach them by what `seen_as` makes of their connection strings.
  InboxStage(std::string orders, std::string stock);
  InboxStage(const InboxStage&) = delete;
  InboxStage& operator=(const InboxStage&) = delete;
  ~InboxStage();

  // Until its end, or it is asked to stop.
  std::jthread place_orders(OrderServiceOptions options) const;
  // A consumer with these words on its command line, which reads the orders' outbox, or a broker.
  Process start(std::vector<std::string> words, const std::string& log = "consumer.log") const;
  Process start_from(const std::string& from, std::vector<std::string> words,
                     const std::string& log) const;

  // Fails the test when that takes longer than any machine should need.
  bool wait_until(const std::string& what, const std::function<bool()>& condition) const;
  // Nothing is left to be read, and, if so wanted, nothing parked.
  bool drained(bool with_parked = true) const;
  // The lease of a consumer that is dead ends now: nobody has to wait for it.
  void end_lease() const;
  // The handler reads what puzzled it, and what is parked is tried again.
  void mend_the_handler() const;
  Outcome judge() const;

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t lines(const std::string& begin, const std::string& log = "consumer.log") const;

  const std::string orders;  // connection strings
  const std::string stock;
  // How consumers reach them, where that is another way.
  std::function<std::string(const std::string&)> seen_as = [](const std::string& same) {
    return same;
  };

  // For broken code, not for slow machines.
  static std::chrono::seconds patience();

 private:
  std::filesystem::path folder_;
};

}  // namespace dovetail::shop
