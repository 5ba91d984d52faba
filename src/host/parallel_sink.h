// Sinks in threads of their own, one or several side by side: events of one key always go to the
// same one.
#pragma once

#include <memory>
#include <vector>

#include "core/clock.h"
#include "core/relay/sink.h"

namespace dovetail {

// Keeps a relay's thread free: it opens sinks in the background, and runs there those that block. A
// single sink that does not block is opened in the background, and then called directly: nothing is
// copied and no thread is between.
//
// The functions are for one thread at a time; each inner sink is used by its own thread only, from
// open() until this sink is destroyed. Copies the events that it is given: a thread that is in the
// middle of a call when the relay starts over or ends never looks at the relay's memory. An error
// of one inner sink is one of the whole, and then no thread starts another call until open().
//
// A thread starts no call after the time that permit() names, so that one which wakes up after a
// pause of the process does nothing more under a lease that is gone. A call that has begun goes on
// to its end. At an inbox that is harmless: what another applies meanwhile is a duplicate to one of
// the two. At a broker it can repeat what the next owner of the lane sends, not overtake it: a call
// has one batch, in order, and all that precedes it was sent before by the same thread.
//
// open() returns at once; a thread opens its sink when its last call has ended, and opened() tells
// when all of them are. close() and the destructor wait for calls, as long as they take, but not
// for a sink that is being opened: that one ends later, by itself (see errand.h). The clock
// outlives it.
class ParallelSink final : public Sink {
 public:
  ParallelSink(std::vector<std::shared_ptr<Sink>> sinks, Clock& clock);
  ParallelSink(const ParallelSink&) = delete;
  ParallelSink& operator=(const ParallelSink&) = delete;
  ~ParallelSink() override;

  Status open() override;
  Result<bool> opened(Duration timeout) override;
  void permit(TimePoint until) override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  // Each sink in its thread.
  Status close() override;
  bool keeps_order_on_failure() const override;
  bool blocks() const override;

 private:
  struct Part;
  struct Submission;
  struct Worker;
  struct State;

  // Shared with threads that outlive this sink.
  std::shared_ptr<State> state_;
};

// One sink with a thread of its own.
std::unique_ptr<Sink> in_background(std::shared_ptr<Sink> sink, Clock& clock);

}  // namespace dovetail
