// Keeps the order of a key when one of its events fails: nothing of the key is tried in a batch
// that was submitted before the failure was collected.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace dovetail {

// The sink numbers batches in the order of submission. For one thread.
class KeyFence {
 public:
  // An event of the key failed; batches up to `last_submitted` are accepted already.
  void raise(std::uint64_t key_hash, std::uint64_t last_submitted);
  // Whether an event of this key in this batch must come back untried.
  bool blocks(std::uint64_t key_hash, std::uint64_t batch);
  void clear() { fences_.clear(); }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> fences_;
};

}  // namespace dovetail
