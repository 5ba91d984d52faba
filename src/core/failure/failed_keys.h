// How a sink that is made of other sinks keeps a key's order when one event fails.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace dovetail {

// Such a sink learns of a failure some time before it hands it out, and the one above it goes on
// submitting until then. So nothing of the key may be tried in any batch that is submitted before
// the failure is handed out, wherever in the sink that batch is. Not for several threads.
class FailedKeys {
 public:
  // The number of the batch that is submitted now; they grow, also over clear().
  std::uint64_t number_batch() { return ++last_submitted_; }

  // An event of this batch, which is not handed out yet, came back without confirmation.
  void add(std::uint64_t key_hash, std::uint64_t batch);
  // Whether an event of this key in this batch must come back untried.
  bool block(std::uint64_t key_hash, std::uint64_t batch) const;
  // Batches are handed out in their order.
  void handed_out(std::uint64_t batch);
  void clear() { keys_.clear(); }

 private:
  struct Key {
    std::uint64_t failed_in;  // the last batch in which one of its events failed
    std::uint64_t through;    // the last batch that must not try it; 0 while that is not known
  };
  std::unordered_map<std::uint64_t, Key> keys_;
  std::uint64_t last_submitted_ = 0;
};

}  // namespace dovetail
