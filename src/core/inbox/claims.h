// How an event is held while its effect happens outside the consumer's database: by an HTTP
// endpoint, a command, or a service with a loop of its own.
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

// What is let go of without being completed.
enum class ReleaseReason : std::uint8_t {
  untried,  // nothing was tried, or something was away: the attempt does not count
  failed,   // the attempt counts
  parked,   // an operator will decide: no attempt counts any more, so that a replay starts from 0
};

// The claims of one consumer, in its database. One thread at a time. Each call is a transaction of
// its own and durable when it returns; in_doubt and unavailable: open() again.
class ClaimStore {
 public:
  virtual ~ClaimStore() = default;

  virtual Status open() = 0;
  // One for each event, in their order; no event is among them twice. A claim whose lease has ended
  // is taken again. The lease counts by the database's clock. An attempt counts from here on, so
  // that it does when the process dies.
  virtual Result<std::vector<Claim>> claim(Events events, Duration lease) = 0;
  // The effects happened; done[i] is false where the claim was lost to another, who may have done
  // it too. A claim whose lease has ended and that nobody took is still ours.
  virtual Status complete(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                          std::span<bool> done) = 0;
  // Lets go of claims, so that the next need not wait. Those that are not ours any more are left
  // alone, so a repeat changes nothing.
  virtual Status release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                         ReleaseReason how) = 0;
};

}  // namespace dovetail
