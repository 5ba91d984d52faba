// What is wrong, in words, worst first, and the one sentence above it. `dovetail status`, /readyz,
// the JSON API and the alerts all take it from here. No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "overview/overview.h"

namespace dovetail::app {

// In the order of the list, among problems of the same severity.
enum class ProblemKind : std::uint8_t {
  database_away,
  database_unusable,  // no tables, a wrong version, damaged
  disk_full,
  pooler_down,
  clock_step,
  broker_away,
  missing_topic,
  wrong_mapping,
  lease_lost,
  relay_halted,
  handler_failing,
  relay_backing_off,
  no_owner,  // events wait, and no process has the relay
  parked,
  slot_lost,
  wal_budget,  // the WAL that is kept nears its limit
  lag,
  paused,
};
// Stable, for scripts: "broker-away".
std::string_view to_string(ProblemKind kind);

struct ProblemPlace {
  std::string store{};
  std::string relay{};  // a consumer has the name of its relay
  bool is_consumer = false;
};

struct Problem {
  ProblemKind kind = ProblemKind::relay_backing_off;
  // error: events are not delivered. warning: somebody should look. note: it is meant to be so.
  Severity severity = Severity::error;
  std::string title{};   // "The broker bus is away"
  std::string text{};    // the reason, as the part that failed words it
  std::string effect{};  // what it means and what happens next
  std::optional<WallTime> since{};
  ProblemPlace where{};
};

struct ProblemLimits {
  Duration lag_max = std::chrono::minutes(5);  // of the oldest pending event
  double wal_warning = 0.5;                    // part of retained_wal_max
};

std::vector<Problem> problems_of(const Overview& overview, const ProblemLimits& limits);

// The sums that the sentence is about.
struct Totals {
  std::size_t relays = 0;        // relays and consumers of the config
  std::size_t silent = 0;        // of these, with a problem that stops deliveries
  std::size_t running = 0;       // of these, with a process
  std::size_t delivering = 0;    // of these, without such a problem
  std::uint64_t pending = 0;     // known ones
  bool is_pending_known = true;  // false: some database or relay could not say
  Duration oldest_age{0};
  std::string oldest_in{};  // the relay with the oldest pending event
  double events_per_second = 0;
  std::uint64_t delivered = 0;
  std::uint64_t parked = 0;
  std::uint64_t waiting = 0;
};
Totals totals_of(const Overview& overview, const std::vector<Problem>& problems);

struct Verdict {
  std::string kind{};   // "ok", "note", "warning" or "error": that of the worst problem
  std::string title{};  // one sentence
  std::string text{};
};
Verdict verdict_of(const Overview& overview, const std::vector<Problem>& problems);

}  // namespace dovetail::app
