#include "core/inbox/key_fence.h"

#include <algorithm>

namespace dovetail {

void KeyFence::raise(std::uint64_t key_hash, std::uint64_t last_submitted) {
  if (key_hash == 0) return;
  std::uint64_t& through = fences_[key_hash];
  through = std::max(through, last_submitted);
}

bool KeyFence::blocks(std::uint64_t key_hash, std::uint64_t batch) {
  if (fences_.empty()) return false;
  const auto found = fences_.find(key_hash);
  if (found == fences_.end()) return false;
  if (batch <= found->second) return true;
  fences_.erase(found);
  return false;
}

}  // namespace dovetail
