// Dovetail in a SQLite file: publish events inside your own transaction, and consume them inside
// your own transaction.
//
// A connection, and everything made from it, belongs to one thread at a time, as SQLite asks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/event.h"
#include "dovetail/result.h"

struct sqlite3;

namespace dovetail::sqlite {

// Sets up the application's own connection: WAL, synchronous=FULL, a busy timeout of 5 s, and no
// automatic checkpoints. SQLite before 3.51.3 can corrupt a WAL file when one connection
// checkpoints while another writes; dovetail therefore checkpoints by itself, only with TRUNCATE,
// which excludes every writer. So: call this on each connection that writes to the file, and leave
// mmap_size at 0. Not needed when the file stays in rollback-journal mode on purpose; dovetail
// never changes the mode of a file elsewhere.
Status prepare_connection(sqlite3* connection);

// Makes the tables, or brings them up to date. Safe to call on every start, also by several
// processes at once. corrupt: the file was made by a newer dovetail.
Status create_schema(sqlite3* connection);

// Adds an event to the caller's open transaction, and returns its id: the event exists if and only
// if that transaction commits. Publishing the same id again with the same content is accepted and
// adds nothing. rejected: no transaction is open, or the event is not valid, or the id is taken by
// other content.
Result<EventId> publish(sqlite3* connection, const NewEvent& event, const EventLimits& limits = {});

// The same for hot paths: keeps its statements prepared. Destroy it before the connection is
// closed.
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

// For a service that runs its own loop: the inbox as one call. Inside the caller's open
// transaction, records that `consumer` applies the event. True: it is the first time, go on and
// commit; false: a duplicate, leave it. rejected: it is so old that it may have been applied and
// forgotten since.
Result<bool> claim(sqlite3* transaction, std::string_view consumer, const EventId& id);

struct ConsumerOptions {
  // Behaviour
  std::string database;  // the consumer's own file; made when it is not there
  std::string name;      // of the consumer; names its progress and its inbox rows
  std::string from{};    // empty: the own mailbox; else the file whose outbox is read directly
  std::vector<std::string> topics{};  // only these; empty: all
  // Failures of one event, while others pass, before it is parked. While all fail, nothing counts.
  std::uint32_t attempts_max = 15;
  std::chrono::milliseconds retry_base{250};  // first wait after a failure; doubles, with jitter
  std::chrono::milliseconds retry_cap{600'000};
  std::chrono::milliseconds lease_term{
      10'000};  // how long another process waits after this one died
  std::function<void(std::string_view)>
      log{};  // a line for an operator; called on the thread in run()
  // Performance
  std::size_t batch_events_max = 1000;  // one transaction
  std::size_t batch_bytes_max = 1 << 20;
  std::size_t window_events_max = 8000;  // read ahead
  std::size_t window_bytes_max = 16 << 20;
};

struct ConsumerCounts {
  std::uint64_t applied = 0;     // effects committed since open()
  std::uint64_t duplicates = 0;  // redeliveries that were recognised and left alone
  std::uint64_t failed = 0;      // failed attempts
  std::uint64_t parked = 0;
};

// Runs a handler for each event, once, in commit order along each key. The inbox row, what the
// handler writes and what it publishes commit in one transaction, which may hold many events.
//
// The handler gets that transaction and must not end it: a COMMIT or ROLLBACK inside it undoes the
// batch and counts as a failure. Errc::unavailable means "not now" and costs no attempt;
// Errc::rejected parks the event; any other error, and any exception, is a failed attempt. After a
// failure the same event comes again in a new transaction. The connection's commit and rollback
// hooks belong to the consumer. After an error the connection may be another one: a handler that
// keeps prepared statements keeps them for the connection they were made on.
class Consumer {
 public:
  using Handler = std::function<Status(sqlite3* transaction, const Event& event)>;

  // rejected: the options are wrong; unavailable, corrupt: the file cannot be used.
  static Result<std::unique_ptr<Consumer>> open(ConsumerOptions options, Handler handler);
  ~Consumer();

  // Blocks until `stop` is requested and the current batch is finished. Every error it survives by
  // waiting and trying again; `log` says so. One thread. While another process runs a consumer of
  // the same name, it stands by.
  Status run(std::stop_token stop);

  // Any thread, also while it runs.
  ConsumerCounts counts() const;

 private:
  struct State;
  explicit Consumer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::sqlite
