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
  confirmed,  // delivered, durably
  duplicate,  // was delivered before, and the sink knows it
  again,      // unknown, nacked, returned, or not tried behind a failure: send it again; no attempt
              // counts
  busy,    // the receiver cannot take it now: full, not bound, over a quota. Like failed, but costs
           // no attempt for a while
  failed,  // refused this time: its key waits; counts an attempt while others pass
  rejected,  // never acceptable as it is: park it now
};

// Where a broker put an event: a partition and an offset, or a number of a stream alone.
struct BrokerPlace {
  std::int32_t partition = -1;
  std::int64_t offset = -1;  // -1: the broker does not tell

  bool is_known() const { return offset >= 0; }
};

struct Outcome {
  Fate fate = Fate::again;
  std::uint32_t attempts =
      0;                 // if the sink counts attempts and rejects after them: how many; else 0
  std::string reason{};  // for failed, busy, rejected and again; never contains payload
  // Confirmed without an effect: this says nothing about the receiver.
  bool untried = false;
  BrokerPlace place{};  // if confirmed
};

using Events = std::span<const Event* const>;

// One thread at a time. Accepts several batches before the first is collected.
class Sink {
 public:
  virtual ~Sink() = default;

  // Connects. Called again after an error: it drops the old connection and all batches on it. A
  // sink that connects in the background returns at once; opened() tells the result.
  virtual Status open() = 0;

  // Called after open() until it is true or fails; meanwhile only permit() may be called. Waits at
  // most `timeout`. False: not yet. After an error, open() is called again.
  virtual Result<bool> opened(Duration timeout) {
    (void)timeout;
    return true;
  }

  // The time until which the relay holds its lease. Called before each submit and repeatedly until
  // the batch is collected; a past time means that the lease is lost or the batch is given up. A
  // sink with its own threads starts no outside call after that time. Other sinks can ignore it:
  // the relay checks its lease before each call.
  virtual void permit(TimePoint until) { (void)until; }

  // Whether submit(), or collect() beyond its timeout, may take long: it runs a handler, commits or
  // waits for an answer. Then it belongs on its own thread (see ParallelSink), and a batch should
  // take a small part of the lease.
  virtual bool blocks() const { return true; }

  // Takes a batch without waiting for its outcomes. The events (not the span) stay valid until the
  // batch is collected, the sink is opened again or the relay is destroyed. After an error the fate
  // of the batch is unknown.
  virtual Status submit(Events events) = 0;

  // Waits at most `timeout` for the oldest uncollected batch. True: `outcomes`, which has its
  // length, is filled. False: not yet. unavailable or in_doubt: the connection is lost, and the
  // fate of all uncollected batches is unknown.
  virtual Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) = 0;

  // The relay has stopped and submits nothing more. A sink with a session or claims in a store ends
  // them, so that the next process need not wait or suspect a crash. A process that dies does not
  // call it. Waits for a running call. open() starts again.
  virtual Status close() { return {}; }

  // True: after an event came back without confirmation, no later event of its key takes effect in
  // any batch submitted before it was collected; those come back as `again`. The relay then keeps
  // many events of one key in flight, otherwise only one.
  virtual bool keeps_order_on_failure() const = 0;
};

}  // namespace dovetail
