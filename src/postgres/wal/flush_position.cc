#include "postgres/wal/flush_position.h"

#include <algorithm>

namespace dovetail::postgres {

void FlushPosition::reached(WalPosition position, std::uint64_t events) {
  // Signs of life come while a sink stands still, too: no more is kept than there is to wait for.
  if (!waiting_.empty() && waiting_.back().events >= events) {
    waiting_.back().position = std::max(waiting_.back().position, position);
  } else {
    waiting_.push_back({position, events});
  }
  take();
}

void FlushPosition::settled(std::uint64_t events) {
  settled_ = std::max(settled_, events);
  take();
}

void FlushPosition::take() {
  while (!waiting_.empty() && waiting_.front().events <= settled_) {
    confirmed_ = std::max(confirmed_, waiting_.front().position);
    waiting_.pop_front();
  }
}

}  // namespace dovetail::postgres
