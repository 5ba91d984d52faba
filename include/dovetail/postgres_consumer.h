// Consume events inside your own PostgreSQL transaction: each event is applied once, however often
// it arrives. The inbox row, what the handler writes and what it publishes commit together.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/event.h"
#include "dovetail/origin.h"
#include "dovetail/result.h"

struct pg_conn;  // libpq's PGconn

namespace dovetail::postgres {

// A parameter of a queued statement: text of the type that the statement expects, or bytes.
struct Param {
  // NOLINTBEGIN(google-explicit-constructor)
  Param(std::string_view text) : value(text) {}
  Param(const char* text) : value(text) {}
  Param(const std::string& text) : value(text) {}
  Param(std::int64_t number) : value(std::to_string(number)) {}
  Param(int number) : value(std::to_string(number)) {}
  Param(const EventId& id) : value(id.to_string()) {}
  // NOLINTEND(google-explicit-constructor)
  static Param bytes(std::string_view bytes);  // of a bytea
  static Param null();

  std::string value;
  bool is_null = false;
  bool is_bytes = false;
};

// The open transaction, READ COMMITTED, as a handler gets it. Valid during the call. The handler
// must not end the transaction: a COMMIT or ROLLBACK inside it undoes the batch and counts as a
// failure. Savepoints are its own.
class Invocation {
 public:
  virtual ~Invocation() = default;

  // Sends a statement without waiting for its answer: the fast way, since a batch of events then
  // costs few round trips. If it fails, the event's handler has failed; rows that it returns are
  // dropped. What passes by itself, such as a deadlock, costs no attempt.
  virtual Status queue(std::string_view sql, std::initializer_list<Param> params = {}) = 0;
  // Adds a follow-up event to the transaction, also without waiting. The event exists if and only
  // if the effect does.
  virtual Result<EventId> publish(const NewEvent& event) = 0;
  // The connection itself, for whoever needs answers: waits for what was queued, then libpq's
  // functions work as usual inside the open transaction.
  virtual Result<pg_conn*> connection() = 0;
};

// Errc::unavailable means "not now" and costs no attempt; Errc::rejected parks the event; any other
// error, and any exception, is a failed attempt. After a failure the same event comes again in a
// new transaction.
using Handler = std::function<Status(Invocation& invocation, const Event& event)>;
// The same for many at once, in their order. When it fails, each event comes again alone.
using BatchHandler =
    std::function<Status(Invocation& invocation, std::span<const Event* const> events)>;

// One of several handlers of a consumer. Each has inbox rows of its own, so that one which is added
// later sees what comes from then on, and each event is applied by each handler once.
struct NamedHandler {
  std::string name{};                // letters, digits, '-' and '_'; empty: the consumer's only one
  std::vector<std::string> types{};  // of events: "order.placed", "order.*"; empty: all
  Handler each{};                    // this one
  BatchHandler batch{};              // or this one
};

struct ConsumerOptions {
  // Behaviour
  std::string database;  // the consumer's own, as libpq takes it; its schema must exist
  std::string name;      // of the consumer; names its progress and its inbox rows
  std::string from{};    // the database whose outbox is read; empty: that of `origin`, or the own
  Origin origin{};       // a broker, instead of `from`
  std::vector<std::string> topics{};  // only these; empty: all
  // Drops an event whose aggregate_version is not above the last one applied of its aggregate: for
  // producers that number the changes of an aggregate, and brokers that deliver late.
  bool version_guard = false;
  // Failures of one event, while others pass, before it is parked. While all fail, nothing counts.
  std::uint32_t attempts_max = 15;
  std::chrono::milliseconds retry_base{250};  // first wait after a failure; doubles, with jitter
  std::chrono::milliseconds retry_cap{600'000};
  std::chrono::milliseconds lease_term{10'000};  // how long others wait after this process died
  std::function<void(std::string_view)> log{};   // a line for an operator; any thread
  // Performance
  std::uint32_t parallel = 1;          // keys are spread over so many connections
  std::size_t batch_events_max = 500;  // one transaction
  std::size_t batch_bytes_max = 1 << 20;
  std::size_t window_events_max = 8000;  // read ahead
  std::size_t window_bytes_max = 16 << 20;
};

struct ConsumerCounts {
  std::uint64_t applied = 0;     // committed since open(), with those that no handler wants
  std::uint64_t duplicates = 0;  // redeliveries that were recognised and left alone
  std::uint64_t failed = 0;      // failed attempts
  std::uint64_t parked = 0;
};

class Consumer {
 public:
  // rejected: the options are wrong; unavailable, corrupt: a database cannot be used.
  static Result<std::unique_ptr<Consumer>> open(ConsumerOptions options,
                                                std::vector<NamedHandler> handlers);
  ~Consumer();

  // Blocks until `stop` is requested and the current batches are finished. Every error it survives
  // by waiting and trying again; `log` says so. Any number of processes may run a consumer of the
  // same name: they share its work along its keys, or stand by.
  Status run(std::stop_token stop);

  // Any thread, also while it runs.
  ConsumerCounts counts() const;

 private:
  struct State;
  explicit Consumer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::postgres
