// Safe points: which snapshot of the table covers which position of the WAL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/clock.h"
#include "postgres/lane/reader.h"
#include "postgres/outbox/progress.h"
#include "postgres/wal/options.h"
#include "postgres/wal/slot_record.h"

namespace dovetail::postgres {

// What must stay as it is while a stream is trusted.
struct Proof {
  std::string timeline{};
  std::string run{};          // of the server
  std::string publication{};  // its mark

  friend bool operator==(const Proof&, const Proof&) = default;
};

// A snapshot, and a position of the WAL before which everything that it shows has committed.
struct SafePoint {
  std::string snapshot{};
  WalPosition position{};
  std::int64_t last_seq = 0;  // of dovetail.outbox
  Proof proof{};
};
Result<SafePoint> take_safe_point(Connection& connection, const Published& what);

// While the WAL is read, now and then a snapshot is taken and then a position of the WAL. Once the
// stream has brought everything up to the position, it has brought everything in the snapshot: the
// progress covers it, and a restart can begin there. One thread.
class SafePoints {
 public:
  // All outlive this.
  SafePoints(Reader& reader, Progress& progress, Clock& clock, const WalSourceOptions& options)
      : reader_(reader), progress_(progress), clock_(clock), options_(options) {}

  // A stream of `what` begins, under this proof.
  void begin(Published what, Proof proof);
  void end() { pending_.reset(); }

  // Takes one, if it is time. Returns why the stream cannot be trusted any more; empty: it can.
  Result<std::string> take_if_due();
  // The stream has brought events. The next safe point is due soon, and not only in a while.
  void has_read() { has_read_ = true; }
  // The stream is at `position`. True: the first safe point of the stream is passed, which shows
  // everything that windows read before it.
  bool pass(WalPosition position);
  // The stream has been behind a safe point for long: it does not keep up.
  bool is_overdue() const;

  // While nothing flows nobody else writes what was covered last. So does the owner, when it is
  // due, and says so.
  bool is_write_due() const;
  void written() { write_at_.reset(); }

 private:
  Reader& reader_;
  Progress& progress_;
  Clock& clock_;
  const WalSourceOptions& options_;

  Published what_{};
  Proof proof_{};
  std::optional<SafePoint> pending_{};
  TimePoint pending_since_{};
  TimePoint due_at_{};
  TimePoint due_when_idle_at_{};
  bool has_read_ = true;  // something since the last one was taken
  bool is_first_ = true;
  std::optional<TimePoint> write_at_{};
};

}  // namespace dovetail::postgres
