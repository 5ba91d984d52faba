// A sink that keeps its events. A test or example can decide the outcome of each event and make the
// sink unavailable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "core/inbox/key_fence.h"
#include "core/relay/sink.h"
#include "memory/stored_event.h"

namespace dovetail {

struct MemorySinkOptions {
  bool dedup = true;                   // a known id comes back as `duplicate`
  bool keeps_order_on_failure = true;  // after a failure it tries nothing of that key
};

// The functions of Sink: one thread at a time. The others: any thread.
class MemorySink final : public Sink {
 public:
  // The outcome of one event; only `confirmed` stores it. Called under the sink's lock.
  using Decide = std::function<Outcome(const Event&)>;

  explicit MemorySink(MemorySinkOptions options = {}) : options_(options) {}

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return options_.keeps_order_on_failure; }
  bool blocks() const override { return false; }

  void decide_by(Decide decide);
  // False: every call fails with Errc::unavailable until it is true and the sink is opened again.
  void set_available(bool available);
  std::vector<StoredEvent> received() const;
  std::size_t received_count() const;

 private:
  struct Submitted {
    std::uint64_t number;
    std::vector<const Event*> events;
  };
  Outcome accept(const Event& event, std::uint64_t batch);

  const MemorySinkOptions options_;
  mutable std::mutex mutex_;
  Decide decide_;
  bool available_ = true;
  bool open_ = false;
  std::deque<Submitted> submitted_;
  std::uint64_t last_submitted_ = 0;
  KeyFence fence_;
  std::vector<StoredEvent> received_;
  std::set<EventId> ids_;
};

}  // namespace dovetail
