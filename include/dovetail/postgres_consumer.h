// Consume events inside your own PostgreSQL transaction: each event is applied once, however often
// it arrives. The inbox row, the handler's writes and the events it publishes commit together.
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

// A parameter of a queued statement: text in the format of its type, or bytes.
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

// The open transaction (READ COMMITTED) of one handler call. Valid during the call. The handler
// must not end the transaction: a COMMIT or ROLLBACK undoes the batch and counts as a failure. It
// may use savepoints.
class Invocation {
 public:
  virtual ~Invocation() = default;

  // Sends a statement without waiting for its answer: fast, because a batch of events then takes
  // few round trips. If it fails, the event's handler has failed. Rows that it returns are dropped.
  // A passing error, such as a deadlock, costs no attempt.
  virtual Status queue(std::string_view sql, std::initializer_list<Param> params = {}) = 0;
  // Adds a follow-up event to the transaction, also without waiting. The event exists if and only
  // if the effect does.
  virtual Result<EventId> publish(const NewEvent& event) = 0;
  // The connection itself, for handlers that need answers. Waits for the queued statements; then
  // libpq's functions work as usual inside the open transaction.
  virtual Result<pg_conn*> connection() = 0;
};

// Errc::failed says that it did not work this time: a failed attempt, as is any exception.
// Errc::unavailable means "not now" and costs no attempt. Errc::rejected parks the event. After a
// failure the same event comes again in a new transaction.
using Handler = std::function<Status(Invocation& invocation, const Event& event)>;
// The same for many events at once, in order. If it fails, each event comes again alone.
using BatchHandler =
    std::function<Status(Invocation& invocation, std::span<const Event* const> events)>;

// One of several handlers of a consumer. Each has its own inbox rows: each handler applies each
// event once, and a handler that is added later starts with the events from then on.
struct NamedHandler {
  std::string name{};                // letters, digits, '-' and '_'; empty: the consumer's only one
  std::vector<std::string> types{};  // of events: "order.placed", "order.*"; empty: all
  Handler each{};                    // either this
  BatchHandler batch{};              // or this
};

struct ConsumerOptions {
  // Behaviour
  std::string database;  // the consumer's own (libpq connection string), with dovetail's schema
  std::string name;      // of the consumer; names its progress and its inbox rows
  std::string from{};    // its outbox is read; empty: that of `origin`, or `database`
  Origin origin{};       // a broker, instead of `from`
  std::vector<std::string> topics{};  // only these; empty: all
  // Drops an event whose aggregate_version is not above the last applied one of its aggregate. For
  // producers that number their changes and brokers that deliver out of order.
  bool version_guard = false;
  // Failures of one event, while others pass, before it is parked. If all fail, nothing counts.
  std::uint32_t attempts_max = 15;
  std::chrono::milliseconds retry_base{250};  // first wait after a failure; doubles, with jitter
  std::chrono::milliseconds retry_cap{600'000};
  std::chrono::milliseconds lease_term{10'000};  // others take over this long after a crash
  std::function<void(std::string_view)> log{};   // gets lines for an operator; called on any thread
  // Performance
  std::uint32_t parallel = 1;          // connections; the keys are spread over them
  std::size_t batch_events_max = 500;  // the size of one transaction
  std::size_t batch_bytes_max = 1 << 20;
  std::size_t window_events_max = 8000;  // read ahead
  std::size_t window_bytes_max = 16 << 20;
};

struct ConsumerCounts {
  std::uint64_t applied = 0;     // committed since open(), including events that no handler wants
  std::uint64_t duplicates = 0;  // redeliveries that were recognised and skipped
  std::uint64_t failed = 0;      // failed attempts
  std::uint64_t parked = 0;
};

class Consumer {
 public:
  // rejected: the options are wrong. unavailable, corrupt: a database cannot be used.
  static Result<std::unique_ptr<Consumer>> open(ConsumerOptions options,
                                                std::vector<NamedHandler> handlers);
  ~Consumer();

  // Blocks until `stop` is requested and the current batches are finished. It survives every error:
  // it waits, tries again and tells `log`. Any number of processes may run a consumer of the same
  // name: they share the keys or stand by.
  Status run(std::stop_token stop);

  // Any thread, also while it runs.
  ConsumerCounts counts() const;

 private:
  struct State;
  explicit Consumer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::postgres
