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

  // Whether a transaction that has committed is visible in it.
  bool shows(std::uint64_t xid) const;
  // The same for the lower half of its number, as the log has it. Right as long as fewer than two
  // thousand million transactions lie between the two.
  bool shows_short(std::uint32_t xid) const;

  // The number nearest to xmax that has these lower bits; 0: it would be before the first.
  std::uint64_t widen(std::uint32_t xid) const;

  // The lowest number that a transaction can have, or a part of one, that `later` shows and this
  // one does not. Parts have numbers of their own, higher than that of the whole.
  std::uint64_t first_shown_by(const Snapshot& later) const;

  // What this one shows, and these transactions.
  Snapshot with(std::span<const std::uint64_t> xids) const;
  // What at least one of the two shows.
  static Snapshot either(const Snapshot& one, const Snapshot& other);
  // As the server takes it.
  std::string text() const;

  // How many transactions it has to name.
  std::size_t in_progress() const { return in_progress_.size(); }
  std::uint64_t xmin() const { return xmin_; }
  std::uint64_t xmax() const { return xmax_; }

 private:
  std::uint64_t xmin_ = 1;
  std::uint64_t xmax_ = 1;
  std::vector<std::uint64_t> in_progress_{};  // in order
};

}  // namespace dovetail::postgres
