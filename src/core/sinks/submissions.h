// The batches of a sink that tries each event by itself: outcomes come in any order, and are handed
// out by batch, in the order of submission.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/relay/sink.h"

namespace dovetail {

struct NothingMore {};

// `More`: what the sink keeps of an event besides. One thread at a time.
template <class More = NothingMore>
class Submissions {
 public:
  struct Submission;
  struct Item : More {
    const Event* event = nullptr;
    Submission* submission = nullptr;
    Outcome outcome{};
  };
  struct Submission {
    std::uint64_t number = 0;
    std::vector<Item> items{};
    std::size_t unresolved = 0;
    std::size_t told = 0;  // outcomes other than "not now"
  };

  bool empty() const { return submitted_.empty(); }
  // REQUIRES: !empty().
  const Submission& oldest() const { return *submitted_.front(); }

  // Items stay at their place until they are handed out, or until clear().
  std::span<Item> add(Events events, std::uint64_t number) {
    if (spare_.empty()) spare_.push_back(std::make_unique<Submission>());
    submitted_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    Submission& added = *submitted_.back();
    added.number = number;
    added.items.assign(events.size(), Item{});
    added.unresolved = events.size();
    added.told = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      added.items[i].event = events[i];
      added.items[i].submission = &added;
    }
    return added.items;
  }

  // Once for each item.
  void resolve(Item& item, Outcome outcome) {
    --item.submission->unresolved;
    if (outcome.fate != Fate::again && outcome.fate != Fate::busy) ++item.submission->told;
    item.outcome = std::move(outcome);
  }
  bool nothing_is_told() const {
    return std::all_of(submitted_.begin(), submitted_.end(),
                       [](const auto& submission) { return submission->told == 0; });
  }

  // The outcomes of the oldest. REQUIRES: all of them are known.
  void hand_out(std::span<Outcome> outcomes) {
    Submission& oldest = *submitted_.front();
    DOVETAIL_CHECK(oldest.unresolved == 0 && outcomes.size() == oldest.items.size());
    for (std::size_t i = 0; i < outcomes.size(); ++i)
      outcomes[i] = std::move(oldest.items[i].outcome);
    spare_.push_back(std::move(submitted_.front()));
    submitted_.pop_front();
  }

  void clear() {
    for (auto& submission : submitted_) spare_.push_back(std::move(submission));
    submitted_.clear();
  }

 private:
  std::deque<std::unique_ptr<Submission>> submitted_;
  std::vector<std::unique_ptr<Submission>> spare_;  // their memory is reused
};

}  // namespace dovetail
