#include "memory/inbox_store.h"

#include <algorithm>
#include <exception>

#include "core/inbox/forgotten.h"

namespace dovetail {

std::uint64_t MemoryInboxDatabase::applied(const std::string& consumer) const {
  std::lock_guard lock(mutex_);
  const auto row = consumers_.find(consumer);
  return row == consumers_.end() ? 0 : row->second.applied;
}

std::uint64_t MemoryInboxDatabase::duplicates(const std::string& consumer) const {
  std::lock_guard lock(mutex_);
  const auto row = consumers_.find(consumer);
  return row == consumers_.end() ? 0 : row->second.duplicates;
}

MemoryInboxStore::MemoryInboxStore(MemoryInboxDatabase& database, std::string consumer,
                                   Handler handler)
    : database_(database), consumer_(std::move(consumer)), handler_(std::move(handler)) {}

Result<bool> MemoryInboxStore::open() {
  rollback();
  std::lock_guard lock(database_.mutex_);
  // A reconnect of a live session is not a crash; only a session that was never closed counts as
  // one.
  const bool clean = open_ || !database_.consumers_[consumer_].session_open;
  database_.consumers_[consumer_].session_open = true;
  open_ = true;
  return clean;
}

Status MemoryInboxStore::begin() {
  if (!open_) return fail(Errc::unavailable, "the inbox is closed; call open() first");
  std::unique_lock lock(database_.mutex_);
  database_.idle_.wait(lock, [&] { return !database_.in_transaction_; });
  database_.in_transaction_ = true;
  in_transaction_ = true;
  return {};
}

Status MemoryInboxStore::insert(Events events, std::span<Arrival> arrivals) {
  std::lock_guard lock(database_.mutex_);
  auto& seen = database_.consumers_[consumer_].seen;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::int64_t digest = payload_digest(events[i]->payload);
    const auto before = seen.find(events[i]->id);
    const auto [row, is_new] =
        before == seen.end() ? staged_.emplace(events[i]->id, digest) : std::pair{before, false};
    arrivals[i] = is_new                  ? Arrival::first
                  : row->second == digest ? Arrival::duplicate
                                          : Arrival::conflict;
  }
  return {};
}

Status MemoryInboxStore::apply(Events events) {
  try {
    for (const Event* event : events) DOVETAIL_TRY(handler_(*event, transaction_));
    return {};
  } catch (const std::exception& thrown) {
    return fail(Errc::failed,
                std::string("the handler threw: ") + thrown.what() + "; check the handler");
  } catch (...) {
    return fail(Errc::failed,
                "the handler threw an object that is not a std::exception; check the handler");
  }
}

Status MemoryInboxStore::commit(std::uint64_t applied, std::uint64_t duplicates) {
  {
    std::lock_guard lock(database_.mutex_);
    auto& consumer = database_.consumers_[consumer_];
    for (const auto& [id, digest] : staged_) consumer.attempts.erase(id);
    consumer.seen.merge(staged_);
    consumer.applied += applied;
    consumer.duplicates += duplicates;
  }
  for (const auto& effect : transaction_.effects_) effect();
  rollback();  // ends the transaction; nothing is left to undo
  return {};
}

void MemoryInboxStore::rollback() {
  staged_.clear();
  transaction_.effects_.clear();
  if (!in_transaction_) return;
  in_transaction_ = false;
  {
    std::lock_guard lock(database_.mutex_);
    database_.in_transaction_ = false;
  }
  database_.idle_.notify_one();
}

Result<std::uint32_t> MemoryInboxStore::count_attempt(const EventId& id, std::int64_t change) {
  std::lock_guard lock(database_.mutex_);
  std::uint32_t& attempts = database_.consumers_[consumer_].attempts[id];
  attempts = static_cast<std::uint32_t>(std::max<std::int64_t>(0, attempts + change));
  return attempts;
}

Status MemoryInboxStore::close() {
  rollback();
  std::lock_guard lock(database_.mutex_);
  database_.consumers_[consumer_].session_open = false;
  open_ = false;
  return {};
}

}  // namespace dovetail
