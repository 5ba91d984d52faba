// How far a lane is: what was read, what of that is settled, what of that is durable, and what the
// server may be told. Windows and the stream count here, and ask here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/relay/source.h"
#include "postgres/outbox/streamed_transactions.h"
#include "postgres/stream/position.h"

namespace dovetail::postgres {

// How far a reader of the table is: everything visible in `prev`, and, when `now` is set,
// everything visible in `now` up to `seq`.
struct TablePosition {
  std::string prev = "1:1:";  // nothing is visible in it
  std::string now{};          // empty: no window is open
  std::int64_t seq = 0;
  std::int64_t passed = 0;  // about which number of the sequence this is

  friend bool operator==(const TablePosition&, const TablePosition&) = default;
};

// Positions that are settled when so many events are.
template <class Position>
class Marks {
 public:
  // Everything up to `position` is among the first `events`, which never become fewer.
  void set(std::uint64_t events, Position position) {
    if (!marks_.empty() && marks_.back().events == events) {
      marks_.back().position = std::move(position);  // nothing lies between
    } else {
      marks_.push_back({events, std::move(position)});
    }
  }
  // Moves the last position that is settled to `settled`; false: there is no other than before.
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

// Events are settled in the order in which they were read, so counting them is enough. One thread.
class Progress {
 public:
  // `has_transactions`: a row says of which transaction it is, so a restart can leave out what was
  // streamed since the last safe point.
  explicit Progress(bool has_transactions) : has_transactions_(has_transactions) {}

  // A new session, in which nothing was read yet and the database has `from`.
  void begin(TablePosition from);

  // So many events were read; `xid`: out of the WAL, and that is their transaction.
  void add(std::uint64_t events, std::uint32_t xid = 0) {
    read_count_ += events;
    if (xid == 0) return;
    is_inside_ = true;
    if (has_transactions_) streamed_.add(xid, read_count_);
  }
  // Everything up to there is among the events that were read up to now.
  void reach(TablePosition position);
  // The same for everything that this snapshot shows: a safe point. `passed`: about which number
  // of the sequence that is.
  void cover(std::string snapshot, std::int64_t passed);
  // The same for the WAL, outside of a transaction. Never goes back.
  void reach(WalPosition position);
  // About which number of the sequence was read last.
  void pass(std::int64_t seq);

  // A stream begins, and `from` is reached by what was read before it. `recorded`: how far the
  // database says that the server was told; nullopt: that need not be recorded, because the slot
  // does not outlive its stream.
  void begin_stream(WalPosition from, std::optional<WalPosition> recorded);
  void record(WalPosition position) { recorded_ = position; }
  // What was covered last, and everything that was streamed since: windows can go on behind it.
  // Call it between two transactions.
  Result<Snapshot> streamed_to() const;

  void settle(std::span<const Settled> fates);
  // Has settled_to() also count what was streamed and settled since the last safe point, so that a
  // session that ends in good order repeats nothing.
  Status count_streamed();

  const TablePosition& read_to() const { return read_; }
  std::int64_t passed() const { return passed_; }
  // A restart continues behind it.
  const TablePosition& settled_to() const { return settled_; }
  WalPosition wal_settled_to() const { return wal_settled_; }
  WalPosition recorded_to() const { return recorded_.value_or(WalPosition{}); }
  // What the server need not keep any longer.
  WalPosition reportable() const {
    return recorded_ ? std::min(*recorded_, wal_settled_) : wal_settled_;
  }
  // Everything that was read is settled.
  bool is_level() const { return settled_count_ == read_count_; }

  // Events settled since the database was told, parked ones among them.
  std::int64_t events() const { return events_; }
  std::int64_t parked() const { return parked_; }
  bool has_moved() const { return settled_ != written_; }
  bool has_news() const { return events_ > 0 || has_moved(); }
  // The database has settled_to() and the counts.
  void written();

 private:
  void take_marks();

  bool has_transactions_;
  std::uint64_t read_count_ = 0;
  std::uint64_t settled_count_ = 0;
  std::int64_t events_ = 0;
  std::int64_t parked_ = 0;
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
  bool is_inside_ = false;      // of the last of them more may come
  Snapshot base_{};             // of the last mark that is settled
  bool is_base_known_ = false;  // it is parsed only when it is needed
};

}  // namespace dovetail::postgres
