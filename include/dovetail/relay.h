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

// All of them since open(), unless it says otherwise.
struct RelayCounts {
  std::uint64_t delivered = 0;               // confirmed by the receiver, duplicates included
  std::uint64_t duplicates = 0;              // of these: the receiver had the event already
  std::uint64_t failed = 0;                  // attempts that the receiver refused
  std::uint64_t parked = 0;                  // put aside, those behind a failure included
  std::uint64_t in_flight = 0;               // now: read, and not settled
  std::uint64_t reconnects = 0;              // connections to the receiver that were thrown away
  std::uint64_t lease_losses = 0;            // writes or sends refused because the lease was lost
  std::chrono::microseconds latency_p50{0};  // from commit to confirmation, rounded up
  std::chrono::microseconds latency_p99{0};
};

struct EmbeddedRelayOptions {
  // The configuration, as `dovetail run` takes it: a file, or its text. With both, `config` is read
  // and `file` is what relative paths and error texts refer to.
  std::filesystem::path file{};
  std::string config{};
  std::string name{};  // of a [[relay]] or a [[consumer]] in it; empty: there is only one

  // Hooks. Each is called by one thread at a time, never after run() has returned, and must return
  // soon and throw nothing: `log` is called on threads that deliver events.
  std::function<void(const LogLine&)> log{};
  std::function<void(const RelayCounts&)> metrics{};  // while it runs, and once at the end
  std::chrono::milliseconds metrics_every{10'000};
};

class EmbeddedRelay {
 public:
  // Reads the configuration and the secrets that it names; connects to nothing. rejected: it is
  // wrong, or a secret is missing; the text names the place in the file. unavailable: the file
  // cannot be read.
  static Result<std::unique_ptr<EmbeddedRelay>> open(EmbeddedRelayOptions options);
  ~EmbeddedRelay();

  // Delivers until `stop` is requested, then lets what is in flight finish: at most its
  // `drain_timeout` (10 s) and one call to the receiver longer, or, of a consumer, one call of a
  // handler. Every error it survives by waiting and trying again, and `log` says so. Also deletes
  // what the configuration's [retention] lets go of, in the databases that it uses. Once.
  Status run(std::stop_token stop);

  // Any thread, at any time. Does not wait.
  RelayCounts counts() const;

 private:
  struct State;
  explicit EmbeddedRelay(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace dovetail
