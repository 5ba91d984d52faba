// The progress of a lane: what is read, what of it is settled, what of that is durable, and what
// the server may be told. Windows and the WAL stream both count here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/life/receipt.h"
#include "core/relay/source.h"
#include "postgres/outbox/streamed_transactions.h"
#include "postgres/stream/position.h"

namespace dovetail::postgres {

// The position of a reader of the table: everything visible in `prev`, and, if `now` is set,
// everything visible in `now` up to `seq`.
struct TablePosition {
  std::string prev = "1:1:";  // nothing is visible in it
  std::string now{};          // empty: no window is open
  std::int64_t seq = 0;
  std::int64_t passed = 0;  // the approximate number of the sequence here

  friend bool operator==(const TablePosition&, const TablePosition&) = default;
};

// Positions that are settled once a number of events is.
template <class Position>
class Marks {
 public:
  // Everything up to `position` is among the first `events`. That number never falls.
  void set(std::uint64_t events, Position position) {
    if (!marks_.empty() && marks_.back().events == events) {
      marks_.back().position = std::move(position);  // no event is between them
    } else {
      marks_.push_back({events, std::move(position)});
    }
  }
  // Moves the last settled position to `settled`; false: it is still the same.
  bool take(std::uint64_t events_settled, Position& settled) {
    bool has_moved = false;
    for (; !marks_.empty() && marks_.front().events <= events_settled; marks_.pop_front()) {
      settled = std::move(marks_.front().position);
      has_moved = true;
    }
    return has_moved;
  }
  void clear() { marks_.clear(); }

 private:
  struct Mark {
    std::uint64_t events;
    Position position;
  };
  std::deque<Mark> marks_{};
};

// Events are settled in the order of reading, so counting them is enough. One thread.
class Progress {
 public:
  // `has_transactions`: rows name their transactions, so a restart can skip what was streamed since
  // the last safe point.
  explicit Progress(bool has_transactions) : has_transactions_(has_transactions) {}

  // Begins a session: nothing is read yet, and the database has `from`.
  void begin(TablePosition from);

  // This many events were read. `xid`: they come from the WAL, and this is their transaction.
  void add(std::uint64_t events, std::uint32_t xid = 0) {
    read_count_ += events;
    if (xid == 0) return;
    is_inside_ = true;
    if (has_transactions_) streamed_.add(xid, read_count_);
  }
  // Everything up to `position` is among the events read so far.
  void reach(TablePosition position);
  // The same for everything that this snapshot shows: a safe point. `passed`: the approximate
  // number of the sequence there.
  void cover(std::string snapshot, std::int64_t passed);
  // The same for the WAL, between transactions. Never goes back.
  void reach(WalPosition position);
  // The approximate number of the sequence that was read last.
  void pass(std::int64_t seq);

  // A stream begins; everything before `from` was read before it. `recorded`: the position that the
  // database has as reported to the server; nullopt: not needed, because the slot ends with its
  // stream.
  void begin_stream(WalPosition from, std::optional<WalPosition> recorded);
  void record(WalPosition position) { recorded_ = position; }
  // What was covered last, plus everything streamed since: windows can continue after it. Call it
  // between two transactions.
  Result<Snapshot> streamed_to() const;

  void settle(std::span<const Settled> fates);
  // Makes settled_to() include what was streamed and settled since the last safe point, so that a
  // session that ends cleanly repeats nothing.
  Status count_streamed();

  const TablePosition& read_to() const { return read_; }
  std::int64_t passed() const { return passed_; }
  // A restart continues after it.
  const TablePosition& settled_to() const { return settled_; }
  WalPosition wal_settled_to() const { return wal_settled_; }
  WalPosition recorded_to() const { return recorded_.value_or(WalPosition{}); }
  // The server need not keep anything before it.
  WalPosition reportable() const {
    return recorded_ ? std::min(*recorded_, wal_settled_) : wal_settled_;
  }
  // Everything read is settled.
  bool is_level() const { return settled_count_ == read_count_; }

  // Events settled since the last write to the database, including parked and skipped ones.
  std::int64_t events() const { return events_; }
  std::int64_t parked() const { return parked_; }
  std::int64_t skipped() const { return skipped_; }
  bool has_moved() const { return settled_ != written_; }
  bool has_news() const { return events_ > 0 || has_moved(); }
  // What was delivered since the last write.
  Receipt& receipt() { return receipt_; }
  // The database has settled_to(), the counts and the receipt.
  void written();

 private:
  void take_marks();

  bool has_transactions_;
  std::uint64_t read_count_ = 0;
  std::uint64_t settled_count_ = 0;
  std::int64_t events_ = 0;
  std::int64_t parked_ = 0;
  std::int64_t skipped_ = 0;
  Receipt receipt_{};
  std::int64_t passed_ = 0;

  TablePosition read_{};
  TablePosition settled_{};
  TablePosition written_{};
  Marks<TablePosition> marks_{};

  WalPosition wal_read_{};
  WalPosition wal_settled_{};
  std::optional<WalPosition> recorded_{};
  Marks<WalPosition> wal_marks_{};

  StreamedTransactions streamed_{};
  bool is_inside_ = false;      // the last transaction may have more events
  Snapshot base_{};             // of the last settled mark
  bool is_base_known_ = false;  // parsed only when needed
};

}  // namespace dovetail::postgres
