// A relay inside the application's own process: it carries events from an outbox to a broker or to
// another database, as `dovetail run` does, without a second process to operate.
//
// It takes the same configuration as the daemon: every option means the same, and
// `dovetail doctor`, `status` and `parked` work on it. Any number of processes may run a relay of
// one name, daemons among them: they share its work or stand by, and take over when one dies.
//
// The database must have dovetail's tables: call create_schema() of its header first, or run
// `dovetail init`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "dovetail/result.h"

namespace dovetail {

enum class LogLevel : std::uint8_t { info, warn, error };

// One change of state for an operator. Never a payload, never a secret.
struct LogLine {
  LogLevel level = LogLevel::info;
  std::string_view subject{};  // the relay, or the store that the line is about
  std::string_view event{};    // for programs: "started", "parked", "sink_lost", ...
  std::string_view text{};     // for people
};

// All counts are since open(), unless their comment says otherwise.
struct RelayCounts {
  std::uint64_t delivered = 0;               // confirmed by the receiver, duplicates included
  std::uint64_t duplicates = 0;              // of these, the receiver had the event already
  std::uint64_t failed = 0;                  // attempts that the receiver refused
  std::uint64_t parked = 0;                  // put aside, with those that wait behind a failure
  std::uint64_t in_flight = 0;               // right now: read, not delivered or parked
  std::uint64_t reconnects = 0;              // broken connections that were replaced
  std::uint64_t lease_losses = 0;            // writes or sends refused because the lease was lost
  std::chrono::microseconds latency_p50{0};  // from commit to confirmation, rounded up
  std::chrono::microseconds latency_p99{0};
};

struct EmbeddedRelayOptions {
  // The configuration, as `dovetail run` takes it: a file, or its text. With both, `config` is read
  // and `file` is what relative paths and error texts refer to.
  std::filesystem::path file{};
  std::string config{};
  std::string name{};  // a [[relay]] or [[consumer]] in it; empty: there is only one

  // Hooks. One thread at a time calls each of them, never after run() has returned. A hook must
  // return soon and must not throw: `log` runs on threads that deliver events.
  std::function<void(const LogLine&)> log{};
  std::function<void(const RelayCounts&)> metrics{};  // while run() runs, and once at its end
  std::chrono::milliseconds metrics_every{10'000};
};

class EmbeddedRelay {
 public:
  // Reads the configuration and its secrets; does not connect. rejected: the configuration is
  // wrong, or a secret is missing; the text names the place in the file. unavailable: the file
  // cannot be read.
  static Result<std::unique_ptr<EmbeddedRelay>> open(EmbeddedRelayOptions options);
  ~EmbeddedRelay();

  // Delivers until `stop` is requested, then lets events in flight finish. That takes at most
  // `drain_timeout` (10 s) and one call to the receiver, or of a consumer, one handler call. It
  // survives every error: it waits, tries again and tells `log`. It also deletes what [retention]
  // allows in the databases that it uses. Call it once.
  Status run(std::stop_token stop);

  // Any thread, at any time. Does not block.
  RelayCounts counts() const;

 private:
  struct State;
  explicit EmbeddedRelay(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace dovetail
