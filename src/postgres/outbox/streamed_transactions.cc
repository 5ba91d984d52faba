#include "postgres/outbox/streamed_transactions.h"

#include <algorithm>
#include <utility>

namespace dovetail::postgres {

void StreamedTransactions::forget(Snapshot shown) {
  shown_ = std::move(shown);
  tidy();
}

void StreamedTransactions::tidy() {
  if (shown_)
    std::erase_if(streamed_, [&](const Streamed& one) { return shown_->shows_short(one.xid); });
  tidy_at_ = std::max<std::size_t>(4096, 2 * streamed_.size());
}

Snapshot StreamedTransactions::united_with(const Snapshot& shown, std::uint64_t events,
                                           bool is_open) const {
  const std::size_t ended = streamed_.size() - (is_open && !streamed_.empty() ? 1 : 0);
  std::vector<std::uint64_t> beyond;
  for (std::size_t i = 0; i < ended && streamed_[i].upto <= events; ++i) {
    const std::uint64_t full = shown.widen(streamed_[i].xid);
    if (full != 0 && !shown.shows(full) && full < shown.xmax() + kMost) beyond.push_back(full);
  }
  return shown.with(beyond);
}

}  // namespace dovetail::postgres
