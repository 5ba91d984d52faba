// What consumers have in common, whatever database they write to. dovetail/sqlite.h and
// dovetail/postgres_consumer.h open them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail {

struct ConsumerOptions {
  // Behaviour
  // The consumer's own. A SQLite file, created if missing; or a connection string of libpq, for a
  // database with dovetail's schema.
  std::string database;
  std::string name;  // of the consumer; names its progress and its inbox rows; has no dot
  // The database whose outbox is read. Empty: it reads `origin`; without one, the outbox of its own
  // database, or with SQLite the mailbox of its own file.
  std::string from{};
  Origin origin{};                    // a broker, instead of `from`
  std::vector<std::string> topics{};  // only these; empty: all
  // Drops an event whose aggregate_version is not above the last applied one of its aggregate. For
  // producers that number their changes and brokers that deliver out of order. PostgreSQL only.
  bool version_guard = false;
  // Failures of one event, while others pass, before it is parked. If all fail, nothing counts.
  std::uint32_t attempts_max = 15;
  std::chrono::milliseconds retry_base{250};  // first wait after a failure; doubles, with jitter
  std::chrono::milliseconds retry_cap{600'000};
  std::chrono::milliseconds lease_term{10'000};  // others take over this long after a crash
  // Gets lines for an operator, one at a time, on any thread.
  std::function<void(std::string_view)> log{};
  // Performance
  // Connections; the keys are spread over them. 1 with SQLite, because a file has one writer.
  std::uint32_t parallel = 1;
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

// One of several handlers of a consumer. Each has its own inbox rows: each handler applies each
// event once, and a handler that is added later starts with the events from then on. The headers of
// the databases say what its function is.
template <class Each, class Batch>
struct HandlerOf {
  std::string name{};                // letters, digits, '-' and '_'; empty: the consumer's only one
  std::vector<std::string> types{};  // of events: "order.placed", "order.*"; empty: all
  Each each{};                       // either this
  Batch batch{};                     // or this: many events, in order
};

class Consumer {
 public:
  virtual ~Consumer() = default;

  // Blocks until `stop` is requested and the current batches are finished. It survives every error:
  // it waits, tries again and tells `log`. One thread calls it. Any number of processes may run a
  // consumer of the same name: they share the keys or stand by.
  virtual Status run(std::stop_token stop) = 0;

  // Any thread, also while it runs. Does not block.
  virtual ConsumerCounts counts() const = 0;
};

}  // namespace dovetail
