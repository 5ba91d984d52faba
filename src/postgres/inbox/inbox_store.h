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
  std::string name;                  // of its inbox rows: "stock", or "stock.ledger"
  std::vector<std::string> types{};  // of events that it wants; empty: all
  // Gets those of a batch that it wants and has not applied, in order. What it queued is waited for
  // by the store. Takes BatchInvocation& or Invocation&.
  std::function<Status(BatchInvocation& invocation, Events events)> run;
  // Whether what it needs is there; asked whenever the inbox is opened.
  std::function<Status(Connection& connection)> check{};
};

// The application's functions as such a handler. An exception is a failed attempt.
TransactionHandler cpp_handler(std::string name, std::vector<std::string> types, Handler each);
TransactionHandler cpp_batch_handler(std::string name, std::vector<std::string> types,
                                     BatchHandler batch);

struct InboxStoreOptions {
  std::string conninfo;
  std::string consumer;    // attempts and totals are counted under this name
  std::uint32_t lane = 0;  // of the consumer; each has one connection
  bool version_guard = false;
  std::vector<TransactionHandler> handlers;
  // How long the statements of one batch of handlers may take before the server counts as away, and
  // how long a handler may let the server wait for the next one before it ends the transaction.
  Duration handlers_timeout = std::chrono::minutes(2);
};

// A batch costs three round trips, whatever its size: one that begins the transaction and inserts
// the rows, one for all that the handlers have queued, and one that counts and commits. Rows are
// inserted in the order of (event id, handler), so that two consumers never wait for each other in
// a circle. The transaction is READ COMMITTED.
//
// An event is first when one of its handlers has not applied it; one that no handler wants is
// first, and applied by nobody.
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
