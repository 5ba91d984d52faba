// Reads the WAL into batches: the running stream, whether what is written into the WAL comes out of
// it, and whether it falls so far behind that windows are quicker.
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

// One thread. Without a stream only begin() and end() may be called.
class StreamReader {
 public:
  // All outlive this. `counts_numbers`: positions of events are numbers of the outbox's sequence.
  StreamReader(Progress& progress, Clock& clock, const WalSourceOptions& options,
               bool counts_numbers)
      : progress_(progress), clock_(clock), options_(options), counts_numbers_(counts_numbers) {}

  // `replication` was started. Transactions that `left_out` shows were read by windows.
  void begin(Replication replication, std::optional<Snapshot> left_out);
  // Closes the stream. True: it had lasted, so that its end is no failure of the way to it.
  bool end();
  explicit operator bool() const { return stream_ != nullptr; }

  // Writes something into the WAL, which the stream must bring.
  Status send_probe(Connection& connection);
  // Whether what was written came out in time. corrupt: it did not.
  Status check_probe();
  // Whether the stream still runs. What came before its end can be read nevertheless.
  Status check() const { return stream_->check(); }

  // As Source::read(), for at most `wait_max`.
  Status read(Batch& out, Limits limits, Duration wait_max, std::stop_token stop);
  // Takes the end of a transaction of which everything was read, see WalStream.
  void take_end() { stream_->take_end(); }
  // Nothing is left out any more.
  void leave_nothing_out() { stream_->leave_out(std::nullopt); }

  // Decides, when asked now and then, whether it is so far behind that the table is quicker.
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
  std::string probe_{};  // empty: seen, or not sent
  Duration awaited_{};   // by reads that brought nothing, since the stream last moved
  WalPosition moved_to_{};
  TimePoint consider_at_{};
  bool is_leaving_ = false;
  std::int64_t behind_ = 0;
};

}  // namespace dovetail::postgres
