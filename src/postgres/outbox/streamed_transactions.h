// Transactions that the WAL stream has returned and a snapshot does not show yet.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "postgres/outbox/snapshot.h"

namespace dovetail::postgres {

// The WAL has a commit before others can see it, and a stream never ends exactly at a snapshot. To
// continue from the snapshot, we must know what came after it. One thread.
class StreamedTransactions {
 public:
  // With more, the snapshot would be too large, and memory would grow during a large backlog. They
  // are forgotten, and come twice if reading continues from the snapshot.
  static constexpr std::size_t kMost = 100'000;

  // Adds a transaction after all earlier ones: of all events read, those up to `upto` are in it or
  // before it.
  void add(std::uint32_t xid, std::uint64_t upto) {
    if (streamed_.empty() || streamed_.back().xid != xid) {
      if (streamed_.size() >= tidy_at_) tidy();
      if (streamed_.size() >= kMost) return;
      streamed_.push_back(Streamed{xid, 0});
    }
    streamed_.back().upto = upto;
  }
  // Snapshots only grow: what this one shows is not needed any more.
  void forget(Snapshot shown);
  // `shown` plus the transactions with all events among the first `events`. `is_open`: the last one
  // is not complete.
  Snapshot united_with(const Snapshot& shown, std::uint64_t events, bool is_open) const;
  std::size_t size() const { return streamed_.size(); }

 private:
  struct Streamed {
    std::uint32_t xid;
    std::uint64_t upto;
  };
  void tidy();

  std::vector<Streamed> streamed_{};
  std::size_t tidy_at_ = 4096;
  std::optional<Snapshot> shown_{};
};

}  // namespace dovetail::postgres
