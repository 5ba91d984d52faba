// Where events go: a broker, or an inbox with its handler.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/clock.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail {

enum class Fate : std::uint8_t {
  confirmed,  // there, durably
  duplicate,  // was there already, and the sink knows it
  again,   // unknown, nacked, returned, or not tried behind a failure: send it again, no attempt is
           // counted
  busy,    // the receiver takes nothing like it now: full, not bound, over a quota; as failed, but
           // no attempt is counted for a while
  failed,  // tried and refused this time: its key waits; counts an attempt while others pass
  rejected,  // will never be accepted as it is: park it now
};

struct Outcome {
  Fate fate = Fate::again;
  std::uint32_t attempts =
      0;                 // rejected because of attempts that the sink counts: how many; else 0
  std::string reason{};  // for failed, busy, rejected and again; never contains payload
  // Confirmed because nothing had to be done for it: that tells nothing about the receiver.
  bool untried = false;
};

using Events = std::span<const Event* const>;

// One thread at a time. Accepts several batches before the first is collected.
class Sink {
 public:
  virtual ~Sink() = default;

  // Connects. Called again after any error: throws the old connection away with everything
  // submitted on it. A sink that connects in the background returns at once, and opened() tells.
  virtual Status open() = 0;

  // Asked after open() until it says true or fails; nothing else is asked meanwhile but permit().
  // Waits at most `timeout`. False: not yet. After an error, open() is called again.
  virtual Result<bool> opened(Duration timeout) {
    (void)timeout;
    return true;
  }

  // Until when the relay holds its lease: told before a batch is submitted and again and again
  // until it is collected; the past, when the relay has lost the lease or gives the batch up. For a
  // sink with threads of its own, which start no call on anything outside after that. Any other
  // works only while it is called, and the relay looks at its lease before each call.
  virtual void permit(TimePoint until) { (void)until; }

  // Whether submit(), or collect() beyond its timeout, may take long: a handler is run, a
  // transaction commits, an answer is waited for. Then it belongs into a thread of its own (see
  // ParallelSink), and is handed as much at once as takes a small part of the lease.
  virtual bool blocks() const { return true; }

  // Takes a batch without waiting for its fate. The events (not the span) stay valid until the
  // batch is collected, the sink is opened again or the relay is gone. After an error nothing is
  // known about the batch.
  virtual Status submit(Events events) = 0;

  // Waits at most `timeout` for the fate of the oldest batch submitted and not collected. True:
  // `outcomes`, which is as long as that batch, is filled. False: not yet. unavailable or in_doubt:
  // the connection is of no use any more; nothing is known about what is uncollected.
  virtual Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) = 0;

  // The relay has stopped and submits nothing more. A sink that keeps a session or claims in a
  // store ends them here, so that the next process need not suspect or wait for anything; one that
  // dies does not come to that. Waits for a call that runs. open() begins anew.
  virtual Status close() { return {}; }

  // True when no event of a key takes effect after an earlier one of that key came back without
  // confirmation, for all batches submitted before that was collected; such events come back as
  // `again`. The relay then keeps many events of one key in flight. Otherwise it keeps one.
  virtual bool keeps_order_on_failure() const = 0;
};

}  // namespace dovetail
