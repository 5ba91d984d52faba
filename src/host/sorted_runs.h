// Sorts more records than memory holds: sorted runs in a temporary file, then one merge over them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "core/check.h"
#include "host/temporary_file.h"

namespace dovetail {

// Records are sorted by their bytes. One thread. First add() each, then take them with next().
template <std::size_t kBytes>
class SortedRuns {
 public:
  using Record = std::array<std::uint8_t, kBytes>;

  // Memory for records, when adding and when taking. While the number of runs is above that of the
  // records that fit, each run still has one record in memory.
  explicit SortedRuns(std::size_t memory_max)
      : held_max_(std::max<std::size_t>(1, memory_max / kBytes)) {}

  Status add(const Record& record) {
    DOVETAIL_CHECK(!is_sorted_);
    if (held_.size() == held_max_) DOVETAIL_TRY(write_run());
    if (held_.capacity() == held_.size())
      held_.reserve(std::min(held_max_, std::max<std::size_t>(1024, 2 * held_.size())));
    held_.push_back(record);
    ++count_;
    return {};
  }

  std::uint64_t count() const { return count_; }

  // The least that was not taken yet. Null: there are no more. Valid until the next call.
  Result<const Record*> next() {
    if (!is_sorted_) DOVETAIL_TRY(sort());
    if (runs_.empty()) return taken_ < held_.size() ? &held_[taken_++] : nullptr;
    if (order_.empty()) return nullptr;
    Run& run = runs_[order_.top().run];
    current_ = order_.top().record;
    order_.pop();
    DOVETAIL_TRY(push(run, static_cast<std::size_t>(&run - runs_.data())));
    return &current_;
  }

 private:
  struct Run {
    std::uint64_t offset = 0;  // in the file, of what is not in the page yet
    std::uint64_t left = 0;    // records, not in the page yet
    std::vector<Record> page{};
    std::size_t taken = 0;  // of the page
  };
  struct First {
    Record record;
    std::size_t run;
    bool operator>(const First& other) const { return record > other.record; }
  };

  static std::span<std::uint8_t> bytes_of(std::vector<Record>& records) {
    return {records.data()->data(), records.size() * kBytes};
  }

  Status write_run() {
    if (runs_.empty()) DOVETAIL_TRY(file_.create());
    std::sort(held_.begin(), held_.end());
    DOVETAIL_TRY(file_.append(bytes_of(held_)));
    runs_.push_back({.offset = written_, .left = held_.size()});
    written_ += held_.size() * kBytes;
    held_.clear();
    return {};
  }

  Status sort() {
    is_sorted_ = true;
    if (runs_.empty()) {
      std::sort(held_.begin(), held_.end());
      return {};
    }
    if (!held_.empty()) DOVETAIL_TRY(write_run());
    std::vector<Record>().swap(held_);
    page_max_ = std::max<std::size_t>(1, held_max_ / runs_.size());
    for (std::size_t i = 0; i < runs_.size(); ++i) DOVETAIL_TRY(push(runs_[i], i));
    return {};
  }

  // Puts the next record of the run up for the merge.
  Status push(Run& run, std::size_t number) {
    if (run.taken == run.page.size()) {
      if (run.left == 0) return {};
      run.page.resize(static_cast<std::size_t>(std::min<std::uint64_t>(page_max_, run.left)));
      DOVETAIL_TRY(file_.read(run.offset, bytes_of(run.page)));
      run.offset += run.page.size() * kBytes;
      run.left -= run.page.size();
      run.taken = 0;
    }
    order_.push({run.page[run.taken++], number});
    return {};
  }

  const std::size_t held_max_;
  std::vector<Record> held_{};
  std::size_t taken_ = 0;  // of `held_`, where everything fits
  std::uint64_t count_ = 0;
  bool is_sorted_ = false;
  TemporaryFile file_{};
  std::uint64_t written_ = 0;
  std::vector<Run> runs_{};
  std::size_t page_max_ = 1;  // records of a run in memory
  std::priority_queue<First, std::vector<First>, std::greater<>> order_{};
  Record current_{};
};

}  // namespace dovetail
