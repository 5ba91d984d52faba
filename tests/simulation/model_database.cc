#include "simulation/model_database.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace dovetail::sim {

TxId ModelDatabase::begin() {
  transactions_.emplace(++last_tx_, Transaction{});
  return last_tx_;
}

Xid ModelDatabase::xid_of(TxId tx) {
  auto& xid = transactions_.at(tx).xid;
  if (!xid) {
    xid = next_xid_++;
    running_.insert(*xid);
  }
  return *xid;
}

bool ModelDatabase::try_lock(TxId tx, const std::string& aggregate) {
  const auto [holder, added] = locks_.try_emplace(aggregate, tx);
  if (holder->second != tx) return false;
  if (added) transactions_.at(tx).locks.insert(aggregate);
  return true;
}

std::int64_t ModelDatabase::version(TxId tx, const std::string& aggregate) const {
  const Transaction& transaction = transactions_.at(tx);
  DOVETAIL_CHECK(transaction.locks.contains(aggregate));
  const auto found = versions_.find(aggregate);
  std::int64_t version = found == versions_.end() ? 0 : found->second;
  for (const Change& change : transaction.changes)
    if (change.aggregate == aggregate) version = change.event.aggregate_version;
  return version;
}

void ModelDatabase::write(TxId tx, const std::string& aggregate, const StoredEvent& event) {
  insert(tx, event);
  const std::size_t index = outbox_.size() - 1;
  transactions_.at(tx).changes.push_back({aggregate, outbox_[index].event, index});
}

std::int64_t ModelDatabase::insert(TxId tx, const StoredEvent& event, std::int64_t seq) {
  OutboxRow row{seq, xid_of(tx), event};
  row.event.position = row.seq;
  row.event.key_hash =
      event.aggregate_id.empty() ? 0 : key_hash(event.aggregate_type, event.aggregate_id);
  outbox_.push_back(std::move(row));
  return seq;
}

void ModelDatabase::savepoint(TxId tx) {
  transactions_.at(tx).savepoint = transactions_.at(tx).changes.size();
}

void ModelDatabase::rollback_to_savepoint(TxId tx) {
  Transaction& transaction = transactions_.at(tx);
  while (transaction.changes.size() > transaction.savepoint) {
    outbox_[transaction.changes.back().outbox_index].undone = true;
    transaction.changes.pop_back();
  }
}

void ModelDatabase::commit(TxId tx) { finish(tx, true); }
void ModelDatabase::rollback(TxId tx) { finish(tx, false); }

void ModelDatabase::rollback_all() {
  while (!transactions_.empty()) rollback(transactions_.begin()->first);
}

std::uint64_t ModelDatabase::crash() {
  rollback_all();
  std::uint64_t unpassed = 0;
  for (const LaneRow& lane : lanes_)
    for (const OutboxRow& row : outbox_)
      unpassed += lane.progress.has_passed(row) && !lane.progress_on_disk.has_passed(row) ? 1 : 0;
  std::erase_if(outbox_, [&](const OutboxRow& row) { return row.xid >= next_xid_on_disk_; });
  aborted_.erase(aborted_.lower_bound(next_xid_on_disk_), aborted_.end());
  next_xid_ = next_xid_on_disk_;
  last_seq_ = last_seq_on_disk_;
  for (LaneRow& lane : lanes_) lane.progress = lane.progress_on_disk;
  ++run_;
  return unpassed;
}

// A commit waits for the WAL up to its own record, and so for everything before it.
void ModelDatabase::put_on_disk() {
  next_xid_on_disk_ = next_xid_;
  last_seq_on_disk_ = last_seq_;
  for (LaneRow& lane : lanes_) lane.progress_on_disk = lane.progress;
}

void ModelDatabase::finish(TxId tx, bool committed) {
  Transaction& transaction = transactions_.at(tx);
  if (committed) {
    for (Change& change : transaction.changes) {
      versions_[change.aggregate] = change.event.aggregate_version;
      business_changes_.push_back(std::move(change.event));
    }
  }
  for (const std::string& aggregate : transaction.locks) locks_.erase(aggregate);
  if (transaction.xid) {
    running_.erase(*transaction.xid);
    if (!committed) aborted_.insert(*transaction.xid);
  }
  transactions_.erase(tx);
  if (committed) put_on_disk();
}

Snapshot ModelDatabase::snapshot() const { return Snapshot{next_xid_, running_}; }

bool ModelDatabase::committed(Xid xid) const {
  return xid < next_xid_ && !running_.contains(xid) && !aborted_.contains(xid);
}

bool ModelDatabase::visible(const OutboxRow& row, const Snapshot& snapshot) const {
  return !row.undone && committed(row.xid) && snapshot.had_ended(row.xid);
}

std::vector<const OutboxRow*> ModelDatabase::window(const Progress& progress,
                                                    const Snapshot& now) const {
  std::vector<const OutboxRow*> rows;
  if (now == progress.done) return rows;
  for (const OutboxRow& row : outbox_) {
    if (row.seq > progress.seq && !progress.done.had_ended(row.xid) && visible(row, now))
      rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OutboxRow* a, const OutboxRow* b) { return a->seq < b->seq; });
  return rows;
}

}  // namespace dovetail::sim
