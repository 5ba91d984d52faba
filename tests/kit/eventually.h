// Waits for what another thread or process does.
#pragma once

#include <chrono>
#include <thread>

namespace dovetail {

// Asks until the condition holds. The limit is for broken code, not for slow machines.
template <class Condition>
bool eventually(Condition holds, std::chrono::milliseconds limit = std::chrono::seconds(90)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace dovetail
