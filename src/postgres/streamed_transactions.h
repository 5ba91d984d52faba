// Which transactions a stream of the log has handed out and a snapshot does not show yet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "postgres/snapshot.h"
#include "postgres/wal_rows.h"

namespace dovetail::postgres {

// The log tells of a commit before others see it, and a stream is never cut exactly where a
// snapshot is. Whoever goes on from the snapshot must know what came beyond it. One thread.
class StreamedTransactions {
 public:
  void clear();
  void add(std::uint32_t xid) {
    if (xid == last_) return;
    last_ = xid;
    xids_.push_back(xid);
    if (xids_.size() >= tidy_at_) tidy();
  }
  // Snapshots only ever show more: what this one shows will not be asked for again.
  void forget(Snapshot shown);
  // `shown`, and all that was streamed.
  Snapshot united_with(const Snapshot& shown) const;
  std::size_t size() const { return xids_.size(); }

 private:
  void tidy();

  std::vector<std::uint32_t> xids_{};
  std::uint32_t last_ = 0;
  std::size_t tidy_at_ = 4096;
  std::optional<Snapshot> shown_{};
};

// Passes everything on to `rows`, and adds the transactions of rows to `to`.
std::unique_ptr<WalRows> remember_transactions(std::unique_ptr<WalRows> rows,
                                               StreamedTransactions& to);

}  // namespace dovetail::postgres
