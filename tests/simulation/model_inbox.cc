#include "simulation/model_inbox.h"

#include <algorithm>

namespace dovetail::sim {

ModelInbox::Transaction ModelInbox::begin() {
  open_.emplace(++last_, Staged{});
  return last_;
}

ModelInbox::Inserted ModelInbox::insert(Transaction tx, const std::string& consumer,
                                        const EventId& id, std::int64_t digest) {
  const Row row{consumer, id};
  const auto compared = [digest](std::int64_t known) {
    return known == digest ? Inserted::duplicate : Inserted::conflict;
  };
  if (const auto known = rows_.find(row); known != rows_.end()) return compared(known->second);
  const auto [holder, added] = inserting_.try_emplace(row, tx);
  if (!added && holder->second != tx) return Inserted::must_wait;
  if (!added) return compared(open_.at(tx).rows.at(row));
  open_.at(tx).rows.emplace(row, digest);
  return Inserted::first;
}

void ModelInbox::effect(Transaction tx, const std::string& consumer, const StoredEvent& event) {
  open_.at(tx).effects.push_back({consumer, event});
}

void ModelInbox::follow_up(Transaction tx, const EventId& caused_by) {
  open_.at(tx).follow_ups.push_back(caused_by);
}

void ModelInbox::commit(Transaction tx) {
  Staged& staged = open_.at(tx);
  for (const auto& [row, digest] : staged.rows) inserting_.erase(row);
  rows_.merge(staged.rows);
  for (Effect& effect : staged.effects) effects_.push_back(std::move(effect));
  follow_ups_.insert(follow_ups_.end(), staged.follow_ups.begin(), staged.follow_ups.end());
  open_.erase(tx);
}

void ModelInbox::rollback(Transaction tx) {
  for (const auto& [row, digest] : open_.at(tx).rows) inserting_.erase(row);
  open_.erase(tx);
}

void ModelInbox::rollback_all() {
  while (!open_.empty()) rollback(open_.begin()->first);
}

std::uint32_t ModelInbox::change_attempts(const std::string& consumer, const EventId& id,
                                          std::int64_t change) {
  std::uint32_t& attempts = attempts_[{consumer, id}];
  attempts = static_cast<std::uint32_t>(std::max<std::int64_t>(0, attempts + change));
  return attempts;
}

bool ModelInbox::open_session(const std::string& member) {
  return open_sessions_.insert(member).second;
}

}  // namespace dovetail::sim
