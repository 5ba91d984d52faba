// Which transactions a snapshot of the server shows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/result.h"

namespace dovetail::postgres {

// A pg_snapshot: "xmin:xmax:xip,xip".
class Snapshot {
 public:
  static Result<Snapshot> parse(std::string_view text);

  // Whether a committed transaction is visible in it.
  bool shows(std::uint64_t xid) const;
  // The same for the lower half of the number, as the WAL has it. Correct if the two are less than
  // two billion transactions apart.
  bool shows_short(std::uint32_t xid) const;

  // The number nearest to xmax with these lower bits; 0: it would be before the first.
  std::uint64_t widen(std::uint32_t xid) const;

  // The lowest number of a transaction, or of a part of one, that `later` shows and this one does
  // not. Parts have higher numbers than their transaction.
  std::uint64_t first_shown_by(const Snapshot& later) const;

  // Shows what this one shows, and these transactions.
  Snapshot with(std::span<const std::uint64_t> xids) const;
  // Shows what at least one of the two shows.
  static Snapshot either(const Snapshot& one, const Snapshot& other);
  // In the server's format.
  std::string text() const;

  // How many open transactions it names.
  std::size_t in_progress() const { return in_progress_.size(); }
  std::uint64_t xmin() const { return xmin_; }
  std::uint64_t xmax() const { return xmax_; }

 private:
  std::uint64_t xmin_ = 1;
  std::uint64_t xmax_ = 1;
  std::vector<std::uint64_t> in_progress_{};  // sorted
};

}  // namespace dovetail::postgres
