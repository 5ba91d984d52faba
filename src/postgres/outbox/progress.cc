#include "postgres/outbox/progress.h"

#include "core/check.h"

namespace dovetail::postgres {

namespace {

// How many unstreamed transactions between streamed ones a position may name. More would be too
// much to write.
constexpr std::size_t kGapsWritten = 2'000;

}  // namespace

void Progress::begin(TablePosition from) {
  *this = Progress(has_transactions_);
  read_ = settled_ = written_ = std::move(from);
}

void Progress::reach(TablePosition position) {
  read_ = std::move(position);
  marks_.set(read_count_, read_);
  take_marks();
}

void Progress::cover(std::string snapshot, std::int64_t passed) {
  TablePosition covered;
  covered.prev = std::move(snapshot);
  if (has_transactions_) covered.passed = std::max(read_.passed, passed);
  reach(std::move(covered));
}

void Progress::reach(WalPosition position) {
  is_inside_ = false;
  wal_read_ = std::max(wal_read_, position);
  wal_marks_.set(read_count_, wal_read_);
  (void)wal_marks_.take(settled_count_, wal_settled_);
}

void Progress::pass(std::int64_t seq) { passed_ = seq; }

void Progress::begin_stream(WalPosition from, std::optional<WalPosition> recorded) {
  wal_marks_.clear();
  wal_read_ = wal_settled_ = {};
  recorded_ = recorded;
  passed_ = 0;
  reach(from);
}

Result<Snapshot> Progress::streamed_to() const {
  const Result<Snapshot> covered = Snapshot::parse(read_.prev);
  if (!covered) return fail(covered.error());
  return streamed_.united_with(*covered, read_count_, is_inside_);
}

void Progress::settle(std::span<const Settled> fates) {
  settled_count_ += fates.size();
  DOVETAIL_CHECK(settled_count_ <= read_count_);
  events_ += static_cast<std::int64_t>(fates.size());
  parked_ += std::count(fates.begin(), fates.end(), Settled::parked);
  skipped_ += std::count(fates.begin(), fates.end(), Settled::skipped);
  take_marks();
  (void)wal_marks_.take(settled_count_, wal_settled_);
}

void Progress::take_marks() {
  if (marks_.take(settled_count_, settled_)) is_base_known_ = false;
}

Status Progress::count_streamed() {
  if (streamed_.size() == 0 || !settled_.now.empty()) return {};
  if (!is_base_known_) {
    Result<Snapshot> base = Snapshot::parse(settled_.prev);
    if (!base) return fail(base.error());
    base_ = std::move(*base);
    is_base_known_ = true;
    streamed_.forget(base_);
  }
  const Snapshot sum = streamed_.united_with(base_, settled_count_, is_inside_);
  if (sum.in_progress() > std::max(base_.in_progress(), kGapsWritten)) return {};
  settled_.prev = sum.text();
  settled_.passed = std::max(settled_.passed, passed_);
  return {};
}

void Progress::written() {
  written_ = settled_;
  events_ = parked_ = skipped_ = 0;
  receipt_.clear();
}

}  // namespace dovetail::postgres
