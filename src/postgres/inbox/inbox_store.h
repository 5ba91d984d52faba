// A consumer's inbox in its PostgreSQL database.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/inbox/inbox.h"
#include "postgres/inbox/invocation.h"

namespace dovetail::postgres {

// A handler inside the consumer's transaction.
struct TransactionHandler {
  std::string name;                  // names its inbox rows: "stock", or "stock.ledger"
  std::vector<std::string> types{};  // types that it wants; empty: all
  // Gets the events of a batch that it wants and has not applied, in order. The store waits for
  // what it queues. It may take BatchInvocation& or Invocation&.
  std::function<Status(BatchInvocation& invocation, Events events)> run;
  // Whether what it needs exists; called whenever the inbox is opened.
  std::function<Status(Connection& connection)> check{};
};

// A handler from the application's functions. An exception is a failed attempt.
TransactionHandler cpp_handler(std::string name, std::vector<std::string> types, Handler each);
TransactionHandler cpp_batch_handler(std::string name, std::vector<std::string> types,
                                     BatchHandler batch);

struct InboxStoreOptions {
  std::string conninfo;
  std::string consumer;    // the name for attempts and totals
  std::uint32_t lane = 0;  // of the consumer; each lane has one connection
  bool version_guard = false;
  std::vector<TransactionHandler> handlers;
  // The time limit for the statements of all handlers of a batch, and the longest pause of a
  // handler between two statements before the server ends the transaction.
  Duration handlers_timeout = std::chrono::minutes(2);
};

// A batch takes three round trips at any size: one begins the transaction and inserts the rows, one
// runs what the handlers have queued, one counts and commits. Rows are inserted in the order of
// (event id, handler), so that two consumers cannot wait for each other in a circle. The
// transaction is READ COMMITTED.
//
// An event is first if any of its handlers has not applied it. An event that no handler wants is
// first, too, and no handler gets it.
class PostgresInboxStore final : public InboxStore {
 public:
  explicit PostgresInboxStore(InboxStoreOptions options);
  ~PostgresInboxStore() override;

  Result<bool> open() override;
  Status begin() override;
  Status insert(Events events, std::span<Arrival> arrivals) override;
  Status apply(Events events) override;
  bool wants(const Event& event) const override;
  bool broke() const override;
  Status commit(std::uint64_t applied, std::uint64_t duplicates) override;
  void rollback() override;
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override;
  Status close() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::postgres
