// The inbox of a consumer that keeps its state in this process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/inbox/inbox.h"

namespace dovetail {

// The effects of a handler; they happen if and only if the transaction commits.
class MemoryTransaction {
 public:
  void on_commit(std::function<void()> effect) { effects_.push_back(std::move(effect)); }

 private:
  friend class MemoryInboxStore;
  std::vector<std::function<void()>> effects_;
};

// The inbox rows of any number of consumers. It allows one transaction at a time, like SQLite. Any
// thread.
class MemoryInboxDatabase {
 public:
  std::uint64_t applied(const std::string& consumer) const;
  std::uint64_t duplicates(const std::string& consumer) const;

 private:
  friend class MemoryInboxStore;
  struct Consumer {
    std::map<EventId, std::int64_t> seen;  // with the digest of its payload
    std::map<EventId, std::uint32_t> attempts;
    std::uint64_t applied = 0;
    std::uint64_t duplicates = 0;
    bool session_open = false;
  };
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  bool in_transaction_ = false;
  std::map<std::string, Consumer> consumers_;
};

// One thread at a time. begin() waits while another store of this database has a transaction.
class MemoryInboxStore final : public InboxStore {
 public:
  using Handler = std::function<Status(const Event&, MemoryTransaction&)>;

  MemoryInboxStore(MemoryInboxDatabase& database, std::string consumer, Handler handler);
  ~MemoryInboxStore() override { rollback(); }

  Result<bool> open() override;
  Status begin() override;
  Status insert(Events events, std::span<Arrival> arrivals) override;
  Status apply(Events events) override;
  Status commit(std::uint64_t applied, std::uint64_t duplicates) override;
  void rollback() override;
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override;
  Status close() override;

 private:
  MemoryInboxDatabase& database_;
  std::string consumer_;
  Handler handler_;
  bool open_ = false;
  bool in_transaction_ = false;
  std::map<EventId, std::int64_t> staged_;
  MemoryTransaction transaction_;
};

}  // namespace dovetail
