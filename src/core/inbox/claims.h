// Holds an event while its effect happens outside the consumer's database: at an HTTP endpoint, in
// a command, or in a service with its own loop.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/relay/sink.h"
#include "dovetail/claim.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail {

// Why a claim is released without being completed.
enum class ReleaseReason : std::uint8_t {
  untried,  // not tried, or a dependency was unavailable: the attempt does not count
  failed,   // the attempt counts
  parked,   // an operator will decide; the count starts again from 0
};

// The claims of one consumer, in its database. One thread at a time. Each call is its own
// transaction and durable when it returns. After in_doubt or unavailable, call open() again.
class ClaimStore {
 public:
  virtual ~ClaimStore() = default;

  virtual Status open() = 0;
  // One claim per event, in order; no event twice. A claim with an expired lease is taken again.
  // The database's clock counts the lease. The attempt counts from now on, so it also counts if the
  // process dies.
  virtual Result<std::vector<Claim>> claim(Events events, Duration lease) = 0;
  // The effects happened. done[i] is false if another consumer has taken the claim; it may have
  // repeated the effect. An expired claim that nobody took is still ours.
  virtual Status complete(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                          std::span<bool> done) = 0;
  // Releases claims, so that the next consumer does not wait. Claims that are not ours any more do
  // not change, so a repeated call is harmless.
  virtual Status release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                         ReleaseReason how) = 0;
};

}  // namespace dovetail
