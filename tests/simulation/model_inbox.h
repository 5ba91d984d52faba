// A model of a consumer's database: inbox rows with a unique index, effects of handlers, and events
// that handlers publish, all visible only after a commit. It has no time, like the producer's
// model.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memory/reader.h"
#include "memory/stored_event.h"

namespace dovetail::sim {

struct Effect {
  std::string consumer;
  StoredEvent event;
};

class ModelInbox {
 public:
  using Transaction = std::uint64_t;
  enum class Inserted : std::uint8_t { first, duplicate, conflict, must_wait };

  Transaction begin();
  // must_wait: another open transaction has inserted the same row. conflict: the row has another
  // payload.
  Inserted insert(Transaction tx, const std::string& consumer, const EventId& id,
                  std::int64_t digest);
  void effect(Transaction tx, const std::string& consumer, const StoredEvent& event);
  void follow_up(Transaction tx, const EventId& caused_by);
  void commit(Transaction tx);
  void rollback(Transaction tx);
  void rollback_all();
  bool is_open(Transaction tx) const { return open_.contains(tx); }

  std::uint32_t change_attempts(const std::string& consumer, const EventId& id,
                                std::int64_t change);
  // Whether the member's last session was closed. Marks the new session as open.
  bool open_session(const std::string& member);
  void close_session(const std::string& member) { open_sessions_.erase(member); }

  ParkedRows& parked(const std::string& consumer) { return parked_[consumer]; }
  const std::vector<Effect>& effects() const { return effects_; }
  const std::vector<EventId>& follow_ups() const { return follow_ups_; }

 private:
  using Row = std::pair<std::string, EventId>;
  struct Staged {
    std::map<Row, std::int64_t> rows{};  // with the digest of the payload
    std::vector<Effect> effects{};
    std::vector<EventId> follow_ups{};
  };
  Transaction last_ = 0;
  std::map<Transaction, Staged> open_;
  std::map<Row, std::int64_t> rows_;
  std::map<Row, Transaction> inserting_;
  std::vector<Effect> effects_;  // in commit order
  std::vector<EventId> follow_ups_;
  std::map<Row, std::uint32_t> attempts_;
  std::set<std::string> open_sessions_;
  std::map<std::string, ParkedRows> parked_;
};

}  // namespace dovetail::sim
