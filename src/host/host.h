// The real machine: clocks, random bytes and event ids.
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

// Bytes from the kernel's generator, buffered per thread. A child of fork() never repeats its
// parent's bytes.
class SystemEntropy final : public Entropy {
 public:
  void fill(std::span<std::uint8_t> bytes) override;
};

// One for the process. Any thread.
SystemClock& system_clock();

// A new UUIDv7; the ids of a thread grow. Any thread, also in a child after fork().
EventId new_event_id();

// The name of this process in a lease: "host:pid".
std::string process_label();

// The name of the user who runs this process, for people.
std::string user_name();

// Changes at every boot of the machine: times of CLOCK_BOOTTIME can only be compared within one
// boot. Empty if the kernel does not tell.
const std::string& boot_id();

}  // namespace dovetail
