// The real machine: clocks, chance and event ids.
#pragma once

#include <string>

#include "core/clock.h"
#include "dovetail/event.h"

namespace dovetail {

class SystemClock final : public Clock {
 public:
  TimePoint now() override;
  WallTime wall() override;
  void sleep(Duration duration, std::stop_token stop) override;
};

// Bytes of the kernel's generator, buffered for each thread. A child of fork() never hands out its
// parent's bytes.
class SystemEntropy final : public Entropy {
 public:
  void fill(std::span<std::uint8_t> bytes) override;
};

// One for the process; any thread.
SystemClock& system_clock();

// A new UUIDv7, growing within a thread. Any thread, also in a child after fork().
EventId new_event_id();

// How this process is called in a lease: "host:pid".
std::string process_label();

// Changes with every boot of the machine: times of CLOCK_BOOTTIME mean something only together with
// it. Empty where the kernel does not tell.
const std::string& boot_id();

}  // namespace dovetail
