// Consume events inside your own PostgreSQL transaction: each event is applied once, however often
// it arrives. The inbox row, the handler's writes and the events it publishes commit together.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/consumer.h"
#include "dovetail/event.h"
#include "dovetail/postgres_param.h"
#include "dovetail/result.h"

struct pg_conn;  // libpq's PGconn

namespace dovetail::postgres {

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

using NamedHandler = HandlerOf<Handler, BatchHandler>;
using dovetail::ConsumerCounts;
using dovetail::ConsumerOptions;

class Consumer : public dovetail::Consumer {
 public:
  // rejected: the options are wrong. unavailable, corrupt: a database cannot be used. Connects to
  // each database within 10 s, unless `connect_timeout` in its settings says otherwise; looking up
  // a host name has the system's own limits.
  static Result<std::unique_ptr<Consumer>> open(ConsumerOptions options,
                                                std::vector<NamedHandler> handlers);
  static Result<std::unique_ptr<Consumer>> open(ConsumerOptions options, Handler handler);
};

}  // namespace dovetail::postgres
