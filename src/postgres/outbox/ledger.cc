#include "postgres/outbox/ledger.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace dovetail::postgres {

void Ledger::begin(Progress from) {
  *this = Ledger{};
  read_ = settled_ = written_ = std::move(from);
}

void Ledger::reach(Progress to) {
  read_ = std::move(to);
  if (settled_count_ == handed_out_) {
    settled_ = read_;
  } else if (!marks_.empty() && marks_.back().handed_out == handed_out_) {
    marks_.back().reached = read_;  // nothing lies between
  } else {
    marks_.push_back(Mark{handed_out_, read_});
  }
}

void Ledger::settle(std::span<const Settled> fates) {
  settled_count_ += fates.size();
  DOVETAIL_CHECK(settled_count_ <= handed_out_);
  events_ += static_cast<std::int64_t>(fates.size());
  parked_ += std::count(fates.begin(), fates.end(), Settled::parked);
  while (!marks_.empty() && marks_.front().handed_out <= settled_count_) {
    settled_ = std::move(marks_.front().reached);
    marks_.pop_front();
  }
}

void Ledger::written() {
  written_ = settled_;
  events_ = parked_ = 0;
}

}  // namespace dovetail::postgres
