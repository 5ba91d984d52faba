// Dovetail in a SQLite file: publish events inside your own transaction, and consume them inside
// your own transaction.
//
// One thread at a time may use a connection and the objects made from it, as SQLite requires.
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

// For a service with its own loop: the inbox as one call. Records in the caller's open
// transaction that `consumer` applies the event. True: it is the first time; apply it and commit.
// False: it is a duplicate; skip it. rejected: the event is so old that it may have been applied
// and forgotten.
Result<bool> claim(sqlite3* transaction, std::string_view consumer, const EventId& id);

struct ConsumerOptions {
  // Behaviour
  std::string database;               // the consumer's own file; created if missing
  std::string name;                   // of the consumer; names its progress and its inbox rows
  std::string from{};                 // empty: its own mailbox; else the file whose outbox it reads
  std::vector<std::string> topics{};  // only these; empty: all
  // Failures of one event, while others pass, before it is parked. If all fail, nothing counts.
  std::uint32_t attempts_max = 15;
  std::chrono::milliseconds retry_base{250};  // first wait after a failure; doubles, with jitter
  std::chrono::milliseconds retry_cap{600'000};
  std::chrono::milliseconds lease_term{
      10'000};  // after a crash, another process takes over this much later at the latest
  std::function<void(std::string_view)>
      log{};  // gets lines for an operator; called on the thread in run()
  // Performance
  std::size_t batch_events_max = 1000;  // the size of one transaction
  std::size_t batch_bytes_max = 1 << 20;
  std::size_t window_events_max = 8000;  // read ahead
  std::size_t window_bytes_max = 16 << 20;
};

struct ConsumerCounts {
  std::uint64_t applied = 0;     // effects committed since open()
  std::uint64_t duplicates = 0;  // redeliveries that were recognised and skipped
  std::uint64_t failed = 0;      // failed attempts
  std::uint64_t parked = 0;
};

// Runs a handler once for each event, in commit order along each key. The inbox row, the handler's
// writes and the events it publishes commit in one transaction, which may hold many events.
//
// The handler gets that transaction and must not end it: a COMMIT or ROLLBACK undoes the batch and
// counts as a failure. Errc::failed says that it did not work this time: a failed attempt, as is
// any exception. Errc::unavailable means "not now" and costs no attempt. Errc::rejected parks the
// event. After a failure the same event comes again in a new transaction. The consumer uses the
// connection's commit and rollback hooks. After an error it may open another connection, so a
// handler must keep prepared statements together with their connection.
class Consumer {
 public:
  using Handler = std::function<Status(sqlite3* transaction, const Event& event)>;

  // rejected: the options are wrong. unavailable, corrupt: the file cannot be used.
  static Result<std::unique_ptr<Consumer>> open(ConsumerOptions options, Handler handler);
  ~Consumer();

  // Blocks until `stop` is requested and the current batch is finished. It survives every error: it
  // waits, tries again and tells `log`. One thread calls it. While another process runs a consumer
  // of the same name, this one stands by.
  Status run(std::stop_token stop);

  // Any thread, also while it runs.
  ConsumerCounts counts() const;

 private:
  struct State;
  explicit Consumer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::sqlite
