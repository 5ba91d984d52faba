// Which transactions a stream of the log has handed out and a snapshot does not show yet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "postgres/outbox/snapshot.h"
#include "postgres/stream/rows.h"

namespace dovetail::postgres {

// The log tells of a commit before others see it, and a stream is never cut exactly where a
// snapshot is. Whoever goes on from the snapshot must know what came beyond it. One thread.
class StreamedTransactions {
 public:
  // More would make a snapshot too large to be read by, and take memory while a large backlog is
  // read: those beyond are forgotten, and come twice if reading goes on from the snapshot.
  static constexpr std::size_t kMost = 100'000;

  void clear();
  // Events of a transaction, behind all that were added before; of none, when `xid` is 0.
  void add(std::uint32_t xid, std::uint64_t events) {
    events_ += events;
    if (xid == 0) return;
    if (streamed_.empty() || streamed_.back().xid != xid) {
      if (streamed_.size() >= tidy_at_) tidy();
      if (streamed_.size() >= kMost) return;
      streamed_.push_back(Streamed{xid, 0});
    }
    streamed_.back().upto = events_;
  }
  // Snapshots only ever show more: what this one shows will not be asked for again.
  void forget(Snapshot shown);
  // `shown`, and those of which everything is among the first `events`. `is_open`: the last one has
  // more to come.
  Snapshot united_with(const Snapshot& shown, std::uint64_t events, bool is_open) const;
  std::size_t size() const { return streamed_.size(); }
  std::uint64_t events() const { return events_; }

 private:
  struct Streamed {
    std::uint32_t xid;
    std::uint64_t upto;  // which event it reaches
  };
  void tidy();

  std::vector<Streamed> streamed_{};
  std::uint64_t events_ = 0;
  std::size_t tidy_at_ = 4096;
  std::optional<Snapshot> shown_{};
};

// Passes everything on to `rows`, and adds the transactions of rows to `to`.
std::unique_ptr<WalRows> remember_transactions(std::unique_ptr<WalRows> rows,
                                               StreamedTransactions& to);

}  // namespace dovetail::postgres
