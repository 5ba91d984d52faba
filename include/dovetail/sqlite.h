// Dovetail in a SQLite file: publish events inside your own transaction, and consume them inside
// your own transaction.
//
// One thread at a time may use a connection and the objects made from it, as SQLite requires. A
// call waits for other writers of the file as long as the connection's busy timeout says, 5 s after
// prepare_connection(), and fails with Errc::unavailable then.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "dovetail/claim.h"
#include "dovetail/consumer.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

struct sqlite3;

namespace dovetail::sqlite {

// Sets up the application's own connection: WAL, synchronous=FULL, a busy timeout of 5 s, no
// automatic checkpoints. SQLite before 3.51.3 can corrupt a WAL file if one connection
// checkpoints while another writes. Therefore dovetail checkpoints itself, only with TRUNCATE,
// which excludes every writer. Call this on each connection that writes to the file, and leave
// mmap_size at 0. Files in rollback-journal mode do not need it; dovetail changes the mode of a
// file nowhere else.
Status prepare_connection(sqlite3* connection);

// Creates the tables or upgrades them. Safe to call at every start and by several processes at
// once. corrupt: a newer dovetail made the file.
Status create_schema(sqlite3* connection);

// Adds an event to the caller's open transaction and returns its id: the event exists if and
// only if that transaction commits. Publishing the same id with the same content again adds
// nothing. rejected: no transaction is open, the event is not valid, or the id belongs to other
// content.
Result<EventId> publish(sqlite3* connection, const NewEvent& event, const EventLimits& limits = {});

// The same for hot paths: it keeps its statements prepared. Destroy it before you close the
// connection.
class Publisher {
 public:
  static Result<Publisher> open(sqlite3* connection, EventLimits limits = {});
  Publisher(Publisher&&) noexcept;
  Publisher& operator=(Publisher&&) noexcept;
  ~Publisher();

  Result<EventId> publish(const NewEvent& event);

 private:
  struct State;
  explicit Publisher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// For a service with its own loop: the inbox as one call. Answers first or duplicate: whether
// `consumer` applies the event for the first time. Call it first in the transaction of the effect,
// and acknowledge the event after COMMIT in both cases. rejected: no transaction is open, or the
// event is older than what the inbox remembers.
Result<Claim::State> claim(sqlite3* transaction, std::string_view consumer, const EventId& id);

// A handler gets the transaction of the inbox row, which may hold many events. The row, the
// handler's writes and the events that it publishes commit together. It must not end the
// transaction: a COMMIT or ROLLBACK undoes the batch and counts as a failure. Errc::failed says
// that it did not work this time: a failed attempt, as is any exception. Errc::unavailable means
// "not now" and costs no attempt. Errc::rejected parks the event. After a failure the same event
// comes again in a new transaction.
using Handler = std::function<Status(sqlite3* transaction, const Event& event)>;
// The same for many events at once, in order. If it fails, each event comes again alone.
using BatchHandler =
    std::function<Status(sqlite3* transaction, std::span<const Event* const> events)>;
using NamedHandler = HandlerOf<Handler, BatchHandler>;
using dovetail::ConsumerCounts;
using dovetail::ConsumerOptions;

// Runs handlers once for each event, in commit order along each key. It uses the connection's
// commit and rollback hooks. After an error it may open another connection, so a handler must keep
// prepared statements together with their connection.
class Consumer : public dovetail::Consumer {
 public:
  using Handler = sqlite::Handler;

  // rejected: the options are wrong. unavailable, corrupt: the file cannot be used. Waits at most
  // 5 s for each other writer.
  static Result<std::unique_ptr<Consumer>> open(ConsumerOptions options,
                                                std::vector<NamedHandler> handlers);
  static Result<std::unique_ptr<Consumer>> open(ConsumerOptions options, sqlite::Handler handler);
};

}  // namespace dovetail::sqlite
