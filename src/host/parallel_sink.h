// One or several sinks, each with its own thread. All events of a key go to the same
// sink.
#pragma once

#include <memory>
#include <vector>

#include "core/clock.h"
#include "core/relay/sink.h"

namespace dovetail {

// Keeps a relay's thread free: it opens sinks in the background, and runs blocking ones there. A
// single sink that does not block is opened in the background and then called directly, without a
// copy or a thread between.
//
// One thread at a time may call these functions. Each inner sink is used by its own thread only,
// from open() until this sink is destroyed. Events are copied: when the relay starts over or ends,
// a thread in the middle of a call must not read the relay's memory. An error of one inner sink is
// an error of the whole: no thread starts another call until open().
//
// A thread starts no call after the time given to permit(). So a thread that wakes up after a pause
// of the process does nothing under a lost lease. A call that has begun runs to its end. An inbox
// is safe: if another process applies the same event, one of the two sees a duplicate. At a broker
// the call can repeat what the next owner of the lane sends, but not overtake it: a call has one
// batch, in order, and the same thread has sent all earlier ones before.
//
// open() returns at once. A thread opens its sink after its last call has ended; opened() is true
// when all are open. close() and the destructor wait for running calls without a limit, but not for
// a sink that is being opened: that one ends later by itself (see errand.h). The clock must outlive
// this sink.
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
  // Closes each sink on its thread.
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
