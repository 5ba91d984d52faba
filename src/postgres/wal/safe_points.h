// Safe points: a snapshot of the table and the WAL position that covers it.
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

// What must not change while a stream is trusted.
struct Proof {
  std::string timeline{};
  std::string run{};          // of the server
  std::string publication{};  // its mark

  friend bool operator==(const Proof&, const Proof&) = default;
};

// A snapshot and a WAL position; everything that the snapshot shows committed before the position.
struct SafePoint {
  std::string snapshot{};
  WalPosition position{};
  std::int64_t last_seq = 0;  // of dovetail.outbox
  Proof proof{};
};
Result<SafePoint> take_safe_point(Connection& connection, const Published& what);

// While the WAL is read, a snapshot and then a WAL position are taken from time to time. When the
// stream has passed the position, it has returned everything in the snapshot: the progress covers
// it, and a restart can begin there. One thread.
class SafePoints {
 public:
  // All must outlive this.
  SafePoints(Reader& reader, Progress& progress, Clock& clock, const WalSourceOptions& options)
      : reader_(reader), progress_(progress), clock_(clock), options_(options) {}

  // A stream of `what` begins, with this proof.
  void begin(Published what, Proof proof);
  void end() { pending_.reset(); }

  // Takes one if it is time. Returns why the stream cannot be trusted any more; empty: it can.
  Result<std::string> take_if_due();
  // The stream has returned events, so the next safe point is due soon.
  void has_read() { has_read_ = true; }
  // The stream is at `position`. True: it has passed its first safe point, which covers everything
  // that windows read before.
  bool pass(WalPosition position);
  // The stream has been behind a safe point for long: it cannot keep up.
  bool is_overdue() const;

  // If no events come, nobody writes the covered position. True: the owner should write it
  // now.
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
  bool has_read_ = true;  // there was something since the last one
  bool is_first_ = true;
  std::optional<TimePoint> write_at_{};
};

}  // namespace dovetail::postgres
