// Deletes what nobody needs any more, a little at a time: what goes when, in which order, and how
// much of it in one call.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "sql/requests.h"
#include "sql/session.h"

namespace dovetail {

// Whether ages can be trusted: the rules of core/inbox/clock_mark.h, with the marks kept in the
// database.
struct ClockStatements {
  // Returns the database's time.
  std::string now;
  // $1 boot. Always returns one row: of this boot the wall clock and the steady clock
  // (microseconds) when the clock was trusted, and both when a doubt began (each or null); of all
  // other boots the latest trusted time, and the latest at which a doubt began (or null).
  std::string marks;
  // $1 boot, $2 the time, which is trusted. Deletes marks of other boots that are not needed any
  // more.
  std::string forget_marks;
  // $1 boot, $2 and $3 the trusted mark, $4 and $5 the doubted one, each in the order of `marks`,
  // or null. Replaces those of this boot.
  std::string mark;
};

// The database's time. unavailable: its clock was set recently, or differs from `clock`, so ages
// are unknown. Keeps what the next check needs. `place` names the database in the error.
Result<WallTime> trusted_now(SqlSession& session, const ClockStatements& sql, Clock& clock,
                             const std::string& boot, std::string_view place);

// Only compares the two clocks: for callers that may not write marks.
Status check_clocks_agree(SqlSession& session, const ClockStatements& sql, Clock& clock);

struct RetentionOptions {
  // Behaviour
  Duration events_older_than = std::chrono::hours(24 * 7);   // once every relay has passed them
  Duration parked_older_than = std::chrono::hours(24 * 90);  // delivered and discarded ones
  Duration audit_older_than = std::chrono::hours(24 * 365);
  // Must be longer than the time in which an event can come again: an older one is refused.
  Duration inbox_older_than = std::chrono::hours(24 * 30);
  // Performance
  std::size_t batch_max = 1000;      // rows deleted in one transaction
  std::size_t rows_max = 1'000'000;  // of each table, in one call
};
// rejected: a time is negative, or nothing could be deleted.
Status check_retention(const RetentionOptions& options);

// A statement with "$1 rows" deletes at most that number. It changes rows, or returns how many.
struct RetentionStatements {
  // A table of events that relays read.
  struct Box {
    // Returns why nothing of it may be deleted; null: nothing hinders.
    std::string hindrance;
    // Of the next $1 rows after position $3 that relays have read: returns the last position (null:
    // no rows), and whether any was made before $2.
    std::string page;
    // Deletes what is after position $1 and up to $2, was made before $3, and is passed by every
    // relay.
    std::string remove;
    // $1 rows. Deletes receipts of relays whose events are all gone.
    std::string receipts;
    std::uint64_t PruneReport::* count;
  };
  std::vector<Box> boxes;

  // $1 rows, $2 finished before.
  std::string parked;
  // $1 rows, $2 before. Empty: what operators did is kept for ever.
  std::string audit{};
  // $1 rows, $2 not counted since.
  std::string attempts;
  // $1 rows, $2 not used since. Not while their lease is running.
  std::string claims;
  // $1 rows, $2 written down before.
  std::string unapplied;

  // The next $2 parked events that are not finished after number $1; those made after $3 need not
  // be returned. Returns number, consumer (null: none that knows neither that it has applied the
  // event nor that it has not), id, when the event was made, until when the consumer may have
  // forgotten. One row for each consumer of an event, by number.
  std::string parked_events;
  // $1 consumer, $2 id. Writes down that the event is not applied, unless that is known.
  std::string note_unapplied;

  // The next $5 inbox rows after the row with $1 consumer, $2 id and $3 applied at, which were
  // applied before $4. In an order that an index has. Returns consumer, id, applied at, whether the
  // digest is known, when the event could first be applied (null: the id has it).
  std::string inbox_rows{};
  // $1 consumer, $2 id, $3 applied at, which must match. Deletes the row.
  std::string forget_row{};
  // $1 consumer, $2 id.
  std::string forget_unapplied{};
  // $1 consumer, $2 until when it may have forgotten from now on, unless that was later.
  std::string move_line{};

  const RequestStatements* requests = nullptr;
};

// One call. A database that deletes whole partitions overrides those steps.
class SqlRetention {
 public:
  // `now`: from trusted_now(). The references must outlive this.
  SqlRetention(SqlSession& session, const RetentionStatements& sql, const RetentionOptions& options,
               WallTime now, PruneReport& report)
      : session_(session), sql_(sql), options_(options), now_(now), report_(report) {}
  virtual ~SqlRetention() = default;

  // Each step is a small transaction, so a process that dies here leaves the rest for the next.
  Status run();

 protected:
  // Before anything is deleted.
  virtual Status prepare() { return {}; }
  // Partitions of the box, if nothing hinders. What is left is deleted row by row.
  virtual Status drop_events(const RetentionStatements::Box&, WallTime /*before*/) { return {}; }
  // Inbox rows whose events could all be applied before `before`, and were an hour before it.
  virtual Status forget_inbox(WallTime before);
  // Between two steps, so that others get their turn.
  virtual void pause() {}

  // Repeats a statement with $1 rows, and `times` from $2 on, until it finds nothing more.
  Status sweep(const std::string& sql, std::initializer_list<WallTime> times,
               std::uint64_t& deleted);

 private:
  struct InboxRow;
  // Calls `step` with a number of rows, until it finds fewer or the limit of a call is reached.
  template <class Step>
  Status repeat(const Step& step);
  Status clean_box(const RetentionStatements::Box& box);
  Status keep_unapplied(WallTime before);
  Result<std::size_t> note_page(std::int64_t& after, WallTime before);
  Status forget(const std::vector<InboxRow>& rows);
  Status run_each(const std::string& sql, const std::vector<SqlParams>& sets);

  SqlSession& session_;
  const RetentionStatements& sql_;
  const RetentionOptions& options_;
  const WallTime now_;
  PruneReport& report_;
};

}  // namespace dovetail
