// Keeps the order of a key when one of its events fails in a sink made of other sinks.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace dovetail {

// Such a sink knows of a failure before it reports it, and gets more batches until then. So it must
// not try an event of that key in any batch that was submitted before the failure is reported,
// wherever in the sink that batch is. For one thread.
class FailedKeys {
 public:
  // Numbers the batch that is submitted now. Numbers always grow, also after clear().
  std::uint64_t number_batch() { return ++last_submitted_; }

  // An event of this batch failed; the batch is not reported yet.
  void add(std::uint64_t key_hash, std::uint64_t batch);
  // Whether an event of this key in this batch must come back untried.
  bool block(std::uint64_t key_hash, std::uint64_t batch) const;
  // The batch was reported. Batches are reported in their order.
  void handed_out(std::uint64_t batch);
  void clear() { keys_.clear(); }

 private:
  struct Key {
    std::uint64_t failed_in;  // the last batch in which one of its events failed
    std::uint64_t through;    // the last batch that must not try the key; 0: not known yet
  };
  std::unordered_map<std::uint64_t, Key> keys_;
  std::uint64_t last_submitted_ = 0;
};

}  // namespace dovetail
