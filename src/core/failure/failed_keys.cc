#include "core/failure/failed_keys.h"

#include <algorithm>

namespace dovetail {

void FailedKeys::add(std::uint64_t key_hash, std::uint64_t batch) {
  if (key_hash == 0) return;
  Key& key = keys_[key_hash];
  key.failed_in = std::max(key.failed_in, batch);
  key.through = 0;
}

bool FailedKeys::block(std::uint64_t key_hash, std::uint64_t batch) const {
  if (keys_.empty()) return false;
  const auto found = keys_.find(key_hash);
  if (found == keys_.end()) return false;
  return found->second.through == 0 || batch <= found->second.through;
}

void FailedKeys::handed_out(std::uint64_t batch) {
  for (auto it = keys_.begin(); it != keys_.end();) {
    Key& key = it->second;
    if (key.through == 0 && key.failed_in <= batch) key.through = last_submitted_;
    const bool is_over = key.through != 0 && key.through <= batch;
    it = is_over ? keys_.erase(it) : std::next(it);
  }
}

}  // namespace dovetail
