// Reads the WAL into batches: the running stream, the probe that shows that it works, and the
// decision that windows are faster because it is far behind.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/clock.h"
#include "postgres/connection/connection.h"
#include "postgres/outbox/progress.h"
#include "postgres/stream/stream.h"
#include "postgres/wal/options.h"

namespace dovetail::postgres {

// One thread. Without a stream, call only begin() and end().
class StreamReader {
 public:
  // All must outlive this. `counts_numbers`: event positions are numbers of the outbox's sequence.
  StreamReader(Progress& progress, Clock& clock, const WalSourceOptions& options,
               bool counts_numbers)
      : progress_(progress), clock_(clock), options_(options), counts_numbers_(counts_numbers) {}

  // `replication` is started. Windows have read the transactions that `left_out` shows.
  void begin(Replication replication, std::optional<Snapshot> left_out);
  // Closes the stream. True: it had lasted, so its end is not a failure to start.
  bool end();
  explicit operator bool() const { return stream_ != nullptr; }

  // Writes a probe into the WAL, which the stream must return.
  Status send_probe(Connection& connection);
  // Whether the probe came out in time. corrupt: it did not.
  Status check_probe();
  // Whether the stream still runs. What arrived before its end can still be read.
  Status check() const { return stream_->check(); }

  // Like Source::read(), for at most `wait_max`.
  Status read(Batch& out, Limits limits, Duration wait_max, std::stop_token stop);
  // Takes the end of a transaction that is fully read, see WalStream.
  void take_end() { stream_->take_end(); }
  // Skips nothing any more.
  void leave_nothing_out() { stream_->leave_out(std::nullopt); }

  // Call it regularly: decides whether the stream is so far behind that the table is faster.
  Status consider_leaving(Connection& connection);
  // It is, and a transaction has just ended.
  bool can_leave() const { return is_leaving_ && !stream_->is_inside_transaction(); }
  void stay() { is_leaving_ = false; }
  std::int64_t behind() const { return behind_; }

  WalPosition position() const { return stream_->position(); }
  bool is_inside_transaction() const { return stream_->is_inside_transaction(); }
  void report(WalPosition settled) { stream_->report(settled); }
  void ask_for_sign() { stream_->ask_for_sign(); }

 private:
  Progress& progress_;
  Clock& clock_;
  const WalSourceOptions& options_;
  const bool counts_numbers_;

  std::unique_ptr<WalStream> stream_{};
  TimePoint began_at_{};
  std::string probe_{};  // empty: it came out, or none was sent
  Duration awaited_{};   // waits of reads without events since the stream last moved
  WalPosition moved_to_{};
  TimePoint consider_at_{};
  bool is_leaving_ = false;
  std::int64_t behind_ = 0;
};

}  // namespace dovetail::postgres
