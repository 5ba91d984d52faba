// What a lane has handed out, what of it is settled, and what of that the database knows.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "core/relay/source.h"

namespace dovetail::postgres {

// How far a lane is: everything visible in `prev`, and, when `now` is set, everything visible in
// `now` up to `seq`.
struct Progress {
  std::string prev = "1:1:";  // nothing is visible in it
  std::string now{};          // empty: no window is open
  std::int64_t seq = 0;
  std::int64_t passed = 0;  // about which number of the sequence this is

  friend bool operator==(const Progress&, const Progress&) = default;
};

// Progress is what was reached before the first event that is not settled. Events are settled in
// the order in which they were handed out, so counting them is enough. One thread.
class Ledger {
 public:
  // A new session, in which nothing was handed out yet and `from` is written.
  void begin(Progress from);
  void hand_out(std::uint64_t events) { handed_out_ += events; }
  // `to` is reached when all that was handed out up to now is settled.
  void reach(Progress to);
  void settle(std::span<const Settled> fates);
  // `to` is reached already, though more was handed out.
  void reached(Progress to) { settled_ = std::move(to); }

  const Progress& read() const { return read_; }
  const Progress& settled() const { return settled_; }
  bool has_moved() const { return settled_ != written_; }

  // Events settled since the database was told, parked ones among them.
  std::int64_t events() const { return events_; }
  std::int64_t parked() const { return parked_; }
  bool has_news() const { return events_ > 0 || has_moved(); }
  void written();

 private:
  struct Mark {
    std::uint64_t handed_out;  // events up to here
    Progress reached;          // when they are settled
  };

  Progress read_{};     // handed out up to here
  Progress settled_{};  // finished up to here
  Progress written_{};  // the same, as the database has it
  std::deque<Mark> marks_{};
  std::uint64_t handed_out_ = 0;
  std::uint64_t settled_count_ = 0;
  std::int64_t events_ = 0;
  std::int64_t parked_ = 0;
};

}  // namespace dovetail::postgres
