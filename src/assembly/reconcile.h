// Compares an outbox with a consumer's inbox, or with a topic, by their names in the config file.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "core/clock.h"
#include "core/reconcile/comparison.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

struct ReconcileRequest {
  std::string outbox{};    // the store that publishes
  std::string inbox{};     // the store with the inbox; empty: a topic is compared
  std::string consumer{};  // or one of its handlers; empty: the only consumer that fills `inbox`
  std::string topic_store{};
  std::string topic{};
  std::string relay{};  // empty: the one that leads there
  // Events that were written in [from, to); empty: all that both sides retain.
  std::optional<WallTime> from{};
  std::optional<WallTime> to{};
  std::optional<Duration> late_after{};
  // Behind a broker or a mailbox: an event that is younger than this and was not received yet is on
  // its way.
  Duration on_the_way = std::chrono::minutes(5);
  bool has_other_sources = false;  // see reconcile::Rules; known where the config says it
  std::size_t findings_max = 1000;
};

struct ReconcileReport {
  std::string outbox{};
  std::string relay{};
  std::string receiver_store{};
  std::string receiver{};  // the consumer, or the topic
  bool is_topic = false;
  std::vector<std::string> receivers{};  // handlers of the consumer
  reconcile::Place outbox_place{};
  reconcile::Place receiver_place{};
  // What was judged, and why it is less than what was asked for.
  WallTime from{};
  WallTime to{};
  std::vector<std::string> limits{};
  WallTime ended{};
  bool has_other_sources = false;
  reconcile::Outcome outcome{};
};

struct ReconcileProgress {
  std::string_view doing{};
  std::uint64_t read = 0;
  std::uint64_t of = 0;  // about; 0: not known
};
// Called now and then. False: stop.
using ReconcileWatch = std::function<bool(const ReconcileProgress& progress)>;

// Both stores must have been prepared. rejected: the request does not fit the config file or the
// stores. unavailable: a store does not answer. Errc::stopped: `watch` said so.
Result<ReconcileReport> reconcile_stores(const config::Config& config,
                                         const ReconcileRequest& request, Clock& clock,
                                         const ReconcileWatch& watch = {});

}  // namespace dovetail::assembly
