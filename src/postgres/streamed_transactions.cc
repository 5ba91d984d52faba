#include "postgres/streamed_transactions.h"

#include <algorithm>
#include <utility>

namespace dovetail::postgres {

namespace {

// More would make a snapshot too large to be read by; such transactions come twice.
constexpr std::uint64_t kBeyondMax = 100'000;

class RememberingRows final : public WalRows {
 public:
  RememberingRows(std::unique_ptr<WalRows> rows, StreamedTransactions& to)
      : rows_(std::move(rows)), to_(to) {}

  Status describe(const pgoutput::Relation& relation) override { return rows_->describe(relation); }
  Status append(std::uint32_t relation, std::span<const pgoutput::Value> values,
                const pgoutput::Begin& transaction, Batch& out) override {
    to_.add(transaction.xid);
    return rows_->append(relation, values, transaction, out);
  }
  Status append(const pgoutput::Message& message, const pgoutput::Begin& transaction,
                Batch& out) override {
    return rows_->append(message, transaction, out);
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
  if (shown_) std::erase_if(xids_, [&](std::uint32_t xid) { return shown_->shows_short(xid); });
  tidy_at_ = std::max<std::size_t>(4096, 2 * xids_.size());
}

Snapshot StreamedTransactions::united_with(const Snapshot& shown) const {
  std::vector<std::uint64_t> beyond;
  for (const std::uint32_t xid : xids_) {
    const std::uint64_t full = shown.widen(xid);
    if (full != 0 && !shown.shows(full) && full < shown.xmax() + kBeyondMax) beyond.push_back(full);
  }
  return shown.with(beyond);
}

std::unique_ptr<WalRows> remember_transactions(std::unique_ptr<WalRows> rows,
                                               StreamedTransactions& to) {
  return std::make_unique<RememberingRows>(std::move(rows), to);
}

}  // namespace dovetail::postgres
