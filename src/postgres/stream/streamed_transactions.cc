#include "postgres/stream/streamed_transactions.h"

#include <algorithm>
#include <utility>

namespace dovetail::postgres {

namespace {

class RememberingRows final : public WalRows {
 public:
  RememberingRows(std::unique_ptr<WalRows> rows, StreamedTransactions& to)
      : rows_(std::move(rows)), to_(to) {}

  Status describe(const pgoutput::Relation& relation) override { return rows_->describe(relation); }
  Status append(std::uint32_t relation, std::span<const pgoutput::Value> values,
                const pgoutput::Begin& transaction, Batch& out) override {
    const std::size_t before = out.size();
    const Status done = rows_->append(relation, values, transaction, out);
    to_.add(transaction.xid, out.size() - before);
    return done;
  }

 private:
  std::unique_ptr<WalRows> rows_;
  StreamedTransactions& to_;
};

}  // namespace

void StreamedTransactions::clear() { *this = StreamedTransactions{}; }

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

std::unique_ptr<WalRows> remember_transactions(std::unique_ptr<WalRows> rows,
                                               StreamedTransactions& to) {
  return std::make_unique<RememberingRows>(std::move(rows), to);
}

}  // namespace dovetail::postgres
