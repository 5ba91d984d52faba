// Parts of the C++ consumers that do not depend on the database. The public header of each consumer
// has its own structs.
#pragma once

#include <algorithm>

#include "core/metrics.h"
#include "core/relay/relay.h"
#include "host/jitter.h"

namespace dovetail {

template <class ConsumerOptions>
RelayOptions relay_options_of(const ConsumerOptions& options) {
  RelayOptions relay;
  relay.attempts_max = options.attempts_max;
  relay.key_retry = RetryPolicy{options.retry_base, options.retry_cap};
  relay.batch_events_max = options.batch_events_max;
  relay.batch_bytes_max = options.batch_bytes_max;
  relay.window_events_max = options.window_events_max;
  relay.window_bytes_max = options.window_bytes_max;
  relay.batch_time_max = options.lease_term / 6;
  relay.seed = jitter_seed();
  return relay;
}

// Any thread, also while the relay runs.
template <class ConsumerCounts>
ConsumerCounts counts_of(const RelayMetrics& metrics) {
  const auto read = [](const RelayMetrics::Counter& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  ConsumerCounts counts;
  counts.duplicates = read(metrics.duplicates);
  // The relay counts a duplicate as confirmed, too, and it does that first.
  counts.applied = std::max(read(metrics.confirmed), counts.duplicates) - counts.duplicates;
  counts.failed = read(metrics.failed) + read(metrics.rejected);
  counts.parked = read(metrics.parked);
  return counts;
}

}  // namespace dovetail
