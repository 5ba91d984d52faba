// Which transactions a stream of the WAL has handed out and a snapshot does not show yet.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "postgres/outbox/snapshot.h"

namespace dovetail::postgres {

// The WAL tells of a commit before others see it, and a stream is never cut exactly where a
// snapshot is. To go on from the snapshot, one must know what came beyond it. One thread.
class StreamedTransactions {
 public:
  // More would make a snapshot too large to be read by, and take memory while a large backlog is
  // read: those beyond are forgotten, and come twice if reading goes on from the snapshot.
  static constexpr std::size_t kMost = 100'000;

  // Of a transaction that stands behind all that were added before: the events up to `upto`, of all
  // that were read, are part of it or stand before it.
  void add(std::uint32_t xid, std::uint64_t upto) {
    if (streamed_.empty() || streamed_.back().xid != xid) {
      if (streamed_.size() >= tidy_at_) tidy();
      if (streamed_.size() >= kMost) return;
      streamed_.push_back(Streamed{xid, 0});
    }
    streamed_.back().upto = upto;
  }
  // Snapshots only ever show more: what this one shows will not be asked for again.
  void forget(Snapshot shown);
  // `shown`, and those of which everything is among the first `events`. `is_open`: the last one has
  // more to come.
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
