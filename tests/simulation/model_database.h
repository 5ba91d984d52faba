// A model of the producer's database with the properties of PostgreSQL that matter for an outbox:
// transaction ids and sequence numbers that are independent, snapshots, row locks, commits in any
// order.
//
// It has no time, network or faults. A call that would have to wait says so, and the caller tries
// again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/relay/lease.h"
#include "core/relay/parking.h"
#include "memory/reader.h"
#include "memory/stored_event.h"

namespace dovetail::sim {

using Xid = std::uint64_t;
using TxId = std::uint64_t;

// Which transactions had ended when the snapshot was taken.
struct Snapshot {
  Xid xmax = 1;           // the first transaction id not given yet
  std::set<Xid> running;  // ids below xmax that had not ended

  Xid xmin() const { return running.empty() ? xmax : *running.begin(); }
  bool had_ended(Xid xid) const { return xid < xmax && !running.contains(xid); }
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

struct OutboxRow {
  std::int64_t seq;
  Xid xid;
  StoredEvent event;
  bool undone = false;  // rolled back to a savepoint
};

// The progress of a reader of one lane: everything that `done` shows, and of the rest that `now`
// shows, everything up to `seq`.
struct Progress {
  Snapshot done;
  std::optional<Snapshot> now;
  std::int64_t seq = 0;

  bool has_passed(const OutboxRow& row) const {
    return done.had_ended(row.xid) || (now && now->had_ended(row.xid) && row.seq <= seq);
  }
};

// One lane's row: progress, lease and parking, as in the real stores.
struct LaneRow {
  Progress progress;
  Progress progress_on_disk{};  // it is written without fsync
  LeaseRow lease;
  Hold hold = Hold::none;  // what an operator ordered
  ParkedRows parked;
};

class ModelDatabase {
 public:
  explicit ModelDatabase(std::uint32_t lanes = 1) : lanes_(lanes) {}

  // Writers
  TxId begin();
  Xid xid_of(TxId tx);  // gives the transaction an id if it has none
  bool has_xid(TxId tx) const { return transactions_.at(tx).xid.has_value(); }
  std::int64_t next_seq() { return ++last_seq_; }
  // False: another transaction has the row; try again when one has ended.
  bool try_lock(TxId tx, const std::string& aggregate);
  // The version that this transaction sees. REQUIRES: locked.
  std::int64_t version(TxId tx, const std::string& aggregate) const;
  // Writes the business row and its event, which has the row's new version.
  void write(TxId tx, const std::string& aggregate, const StoredEvent& event);
  // Writes only an event, for scripts about visibility.
  std::int64_t insert(TxId tx, const StoredEvent& event) { return insert(tx, event, next_seq()); }
  // The same with a number drawn before.
  std::int64_t insert(TxId tx, const StoredEvent& event, std::int64_t seq);
  void savepoint(TxId tx);
  void rollback_to_savepoint(TxId tx);
  void commit(TxId tx);
  void rollback(TxId tx);
  void rollback_all();  // like a restart
  // Loses everything not on disk: open transactions, progress written since the last commit, and
  // numbers given since then, which come again. Returns how many events the lanes' progress had
  // passed and has lost.
  std::uint64_t crash();
  // Changes at each crash.
  std::string run() const { return std::to_string(run_); }
  bool is_open(TxId tx) const { return transactions_.contains(tx); }

  // Readers
  Snapshot snapshot() const;
  bool committed(Xid xid) const;
  // Whether a statement under `snapshot` sees the row.
  bool visible(const OutboxRow& row, const Snapshot& snapshot) const;
  const std::vector<OutboxRow>& outbox() const { return outbox_; }
  // Rows that `now` shows and `done` does not, after `seq`, in order of seq.
  std::vector<const OutboxRow*> window(const Progress& progress, const Snapshot& now) const;

  std::uint32_t lanes() const { return static_cast<std::uint32_t>(lanes_.size()); }
  LaneRow& lane(std::uint32_t number) { return lanes_.at(number); }
  const LaneRow& lane(std::uint32_t number) const { return lanes_.at(number); }

  // The truth: every committed change of the business table, in commit order.
  const std::vector<StoredEvent>& business_changes() const { return business_changes_; }

 private:
  struct Change {
    std::string aggregate;
    StoredEvent event;
    std::size_t outbox_index;
  };
  struct Transaction {
    std::optional<Xid> xid{};
    std::set<std::string> locks{};
    std::vector<Change> changes{};
    std::size_t savepoint = 0;
  };
  void finish(TxId tx, bool committed);
  void put_on_disk();

  std::map<TxId, Transaction> transactions_;
  std::map<std::string, TxId> locks_;
  std::map<std::string, std::int64_t> versions_;
  std::vector<StoredEvent> business_changes_;
  std::vector<OutboxRow> outbox_;
  std::set<Xid> running_;
  std::set<Xid> aborted_;
  TxId last_tx_ = 0;
  Xid next_xid_ = 1;
  std::int64_t last_seq_ = 0;
  std::vector<LaneRow> lanes_;
  Xid next_xid_on_disk_ = 1;
  std::int64_t last_seq_on_disk_ = 0;
  std::uint64_t run_ = 1;
};

}  // namespace dovetail::sim
