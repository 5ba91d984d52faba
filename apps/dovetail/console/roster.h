// The relays and consumers that run in this process, for whoever shows them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "assembly/wiring.h"
#include "config/config.h"

namespace dovetail::console {

// A consumer is a relay, too.
struct Member {
  const config::RelayConfig* relay = nullptr;
  const config::ConsumerConfig* consumer = nullptr;  // null: it is a relay only
  const assembly::Lane* lane = nullptr;
};

// Any thread. What members point at outlives the roster.
class Roster {
 public:
  // Empty until the daemon has looked at its stores and begun.
  std::vector<Member> all() const {
    const std::lock_guard lock(mutex_);
    return members_;
  }
  void set(std::vector<Member> members) {
    const std::lock_guard lock(mutex_);
    members_ = std::move(members);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Member> members_;
};

}  // namespace dovetail::console
