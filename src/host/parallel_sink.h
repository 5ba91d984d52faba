// Several sinks side by side, each with a thread of its own: events of one key always go to the
// same one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/batch.h"
#include "core/failed_keys.h"
#include "core/sink.h"

namespace dovetail {

struct ParallelSinkOptions {
  // The threads go on for so long after the relay asked last. It looks at its lease before it asks,
  // so threads that wake up after a pause of the process do nothing more under a lease that is
  // gone.
  Duration permit = std::chrono::milliseconds(250);
  // How long open() waits for threads that are still in a call of their sink.
  Duration quiet_max = std::chrono::seconds(1);
};

// The functions are for one thread at a time; each inner sink is used by its own thread only, from
// open() until this sink is destroyed. Copies the events that it is given: a thread that is in the
// middle of a call when the relay starts over or ends never looks at the relay's memory. An error
// of one inner sink is one of the whole, and then no thread starts another call until open(). An
// inner sink that does all its work in collect() blocks no other and not the relay either.
//
// open() waits at most `quiet_max` for calls that are running (unavailable: one still is), then
// opens all inner sinks at once. The destructor waits for running calls, as long as they take.
// Sinks and clock outlive it, unless it owns the sinks.
class ParallelSink final : public Sink {
 public:
  ParallelSink(std::vector<Sink*> sinks, Clock& clock, ParallelSinkOptions options = {});
  ParallelSink(std::vector<std::unique_ptr<Sink>> owned, Clock& clock,
               ParallelSinkOptions options = {});
  ~ParallelSink() override;

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override;

 private:
  // What one worker has of one submission.
  struct Part {
    std::uint64_t submission = 0;
    Batch batch{};
    std::vector<std::size_t> index{};     // in the submission, for each event of the batch
    std::vector<const Event*> tried{};    // those that are not behind a failure
    std::vector<std::size_t> tried_at{};  // their indexes in the submission
    std::vector<Outcome> outcomes{};      // of those that were tried
  };
  using Parts = std::deque<std::unique_ptr<Part>>;
  struct Submission {
    std::uint64_t number = 0;
    std::size_t parts_left = 0;
    std::vector<Outcome> outcomes{};
  };
  struct Worker {
    Sink* sink = nullptr;
    Parts queued{};        // not handed to the sink yet
    Parts in_flight{};     // in the sink's order
    bool is_busy = false;  // in a call of its sink, without the lock
    bool must_open = false;
    Status opened{};
    std::condition_variable wake{};
    std::thread thread{};
  };
  using Lock = std::unique_lock<std::mutex>;

  std::size_t worker_of(const Event& event);
  std::unique_ptr<Part> take_part();
  void run(Worker& worker);
  bool may_work(const Worker& worker);
  Status start_threads();
  void open_one(Worker& worker, Lock& lock);
  void leave_call(Worker& worker);
  void submit_part(Worker& worker, Lock& lock);
  void collect_part(Worker& worker, Lock& lock);
  void choose(Part& part);
  void finish(std::unique_ptr<Part> part);
  void give_up(Error error);
  void permit(Duration at_least);
  bool any_busy() const;

  std::vector<std::unique_ptr<Sink>> owned_;
  Clock& clock_;
  ParallelSinkOptions options_;
  std::deque<Worker> workers_;
  std::size_t next_without_key_ = 0;

  // Everything below, and what is in the workers but their sinks, is guarded.
  mutable std::mutex mutex_;
  std::condition_variable told_;  // something changed that the relay's thread may wait for
  bool is_running_ = false;       // open, and nothing has gone wrong since
  bool is_ending_ = false;
  std::optional<Error> trouble_;
  TimePoint permit_until_{};
  std::deque<Submission> submitted_;
  std::vector<std::unique_ptr<Part>> spare_;
  FailedKeys failed_;
};

}  // namespace dovetail
