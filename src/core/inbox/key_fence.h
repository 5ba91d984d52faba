// How a sink keeps a key's order when one event fails: nothing of that key is tried in any batch
// that was submitted before the failure was collected.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace dovetail {

// Batches are numbered by the sink in the order of submission. Not for several threads.
class KeyFence {
 public:
  // An event of the key failed while batches up to `last_submitted` had been accepted.
  void raise(std::uint64_t key_hash, std::uint64_t last_submitted);
  // Whether an event of this key in batch number `batch` must come back untried.
  bool blocks(std::uint64_t key_hash, std::uint64_t batch);
  void clear() { fences_.clear(); }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> fences_;
};

}  // namespace dovetail
