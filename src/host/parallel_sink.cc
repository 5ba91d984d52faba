#include "host/parallel_sink.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/event/batch.h"
#include "core/event/wide.h"
#include "core/failure/failed_keys.h"
#include "host/errand.h"

namespace dovetail {

namespace {

// How long a thread waits in collect() before it checks for new parts to submit.
constexpr Duration kCollectWait = std::chrono::milliseconds(1);
// How long the destructor waits for a sink that opens.
constexpr Duration kOpeningEndsWithin = std::chrono::milliseconds(50);

// A relay with several lanes may see only neighbouring hashes, so the hash alone would not spread
// its keys.
std::uint64_t spread(std::uint64_t hash) {
  hash ^= hash >> 31;
  hash *= 0x9e3779b97f4a7c15U;
  return hash ^ hash >> 29;
}

}  // namespace

// The events of one submission that belong to one worker.
struct ParallelSink::Part {
  std::uint64_t submission = 0;
  Batch batch{};
  std::vector<std::size_t> index{};     // of each event of the batch, in the submission
  std::vector<const Event*> tried{};    // the events that are not behind a failure
  std::vector<std::size_t> tried_at{};  // their indexes in the submission
  std::vector<Outcome> outcomes{};      // of the events in `tried`
};

struct ParallelSink::Submission {
  std::uint64_t number = 0;
  std::size_t parts_left = 0;
  std::vector<Outcome> outcomes{};
};

struct ParallelSink::Worker {
  using Parts = std::deque<std::unique_ptr<Part>>;

  std::shared_ptr<Sink> sink{};
  Parts queued{};     // not handed to the sink yet
  Parts in_flight{};  // in the sink's order
  bool must_open = false;
  bool is_opening = false;
  bool is_left_behind = false;  // its thread outlives the ParallelSink
  Status opened{};
  Status closed{};
  std::condition_variable wake{};
  std::thread thread{};
};

// The inner sinks belong to their workers' threads; in direct mode, when open, to the relay's.
// Everything else is guarded.
struct ParallelSink::State {
  using Lock = std::unique_lock<std::mutex>;

  explicit State(Clock& given_clock) : clock(given_clock) {}

  std::size_t worker_of(const Event& event);
  std::unique_ptr<Part> take_part();
  void submit(Events events);
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout);
  bool all_opened() const;
  Status end(bool closes);
  bool run(Worker& worker);
  bool may_work(const Worker& worker);
  void open_one(Worker& worker, Lock& lock);
  void submit_part(Worker& worker, Lock& lock);
  void collect_part(Worker& worker, Lock& lock);
  void choose(Part& part);
  void finish(std::unique_ptr<Part> part);
  void give_up(Error error);

  Clock& clock;
  std::deque<Worker> workers{};
  std::size_t next_without_key = 0;
  bool is_direct = false;  // a single sink that does not block

  std::mutex mutex{};
  std::condition_variable told{};  // wakes the relay's thread
  bool is_running = false;         // open, and no error since
  bool is_ending = false;
  bool is_closing = false;  // ending, and each sink is told
  std::optional<Error> trouble{};
  TimePoint permit_until = TimePoint::max();
  std::deque<Submission> submitted{};
  std::vector<std::unique_ptr<Part>> spare{};
  FailedKeys failed{};
};

ParallelSink::ParallelSink(std::vector<std::shared_ptr<Sink>> sinks, Clock& clock)
    : state_(std::make_shared<State>(clock)) {
  DOVETAIL_CHECK(!sinks.empty());
  state_->is_direct = sinks.size() == 1 && !sinks.front()->blocks();
  for (std::shared_ptr<Sink>& sink : sinks) state_->workers.emplace_back().sink = std::move(sink);
}

ParallelSink::~ParallelSink() { (void)state_->end(false); }

Status ParallelSink::close() { return state_->end(true); }

// Harmless if it has ended already.
Status ParallelSink::State::end(bool closes) {
  const auto all_quiet = [&] {
    return std::none_of(workers.begin(), workers.end(),
                        [](const Worker& worker) { return worker.is_opening; });
  };
  {
    Lock lock(mutex);
    is_ending = true;
    is_closing = is_closing || closes;
    for (Worker& worker : workers) worker.wake.notify_one();
    told.wait_for(lock, kOpeningEndsWithin, all_quiet);
    for (Worker& worker : workers) {
      if (!worker.is_opening || worker.is_left_behind) continue;
      worker.is_left_behind = true;
      errand_began();
      worker.thread.detach();
    }
  }
  Status result;
  for (Worker& worker : workers) {
    if (!worker.thread.joinable()) continue;  // left behind, or never started
    worker.thread.join();
    if (result) result = std::move(worker.closed);
  }
  return result;
}

std::unique_ptr<Sink> in_background(std::shared_ptr<Sink> sink, Clock& clock) {
  return std::make_unique<ParallelSink>(std::vector{std::move(sink)}, clock);
}

bool ParallelSink::keeps_order_on_failure() const {
  return std::all_of(state_->workers.begin(), state_->workers.end(),
                     [](const Worker& worker) { return worker.sink->keeps_order_on_failure(); });
}

// The relay's thread is free, but the thread of the sink still blocks.
bool ParallelSink::blocks() const { return !state_->is_direct; }

Status ParallelSink::open() {
  State& state = *state_;
  const State::Lock lock(state.mutex);
  state.is_running = state.is_ending = false;
  state.trouble.reset();
  state.submitted.clear();
  state.failed.clear();
  state.is_closing = false;
  for (Worker& worker : state.workers) {
    if (worker.is_left_behind)
      return fail(Errc::unavailable, "it still connects since it was closed; try again later");
    worker.queued.clear();
    worker.must_open = true;
    worker.wake.notify_one();
  }
  try {
    for (Worker& worker : state.workers) {
      if (worker.thread.joinable()) continue;
      worker.thread = std::thread([shared = state_, &worker]() mutable {
        const bool is_left_behind = shared->run(worker);
        shared.reset();
        if (is_left_behind) errand_ended();
      });
    }
  } catch (const std::system_error& error) {
    return fail(Errc::unavailable, std::string("cannot start a thread: ") + error.what() +
                                       "; check the limit of threads");
  }
  return {};
}

Result<bool> ParallelSink::opened(Duration timeout) {
  State& state = *state_;
  State::Lock lock(state.mutex);
  if (state.is_running) return true;
  if (!state.told.wait_for(lock, timeout, [&] { return state.all_opened(); })) return false;
  for (const Worker& worker : state.workers)
    if (!worker.opened) return fail(worker.opened.error());
  state.is_running = true;
  return true;
}

void ParallelSink::permit(TimePoint until) {
  State& state = *state_;
  const State::Lock lock(state.mutex);
  const bool was_over = state.clock.now() >= std::exchange(state.permit_until, until);
  if (!was_over) return;
  for (Worker& worker : state.workers) worker.wake.notify_one();
}

Status ParallelSink::submit(Events events) {
  if (state_->is_direct) return state_->workers.front().sink->submit(events);
  state_->submit(events);
  return {};
}

Result<bool> ParallelSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  if (state_->is_direct) return state_->workers.front().sink->collect(outcomes, timeout);
  return state_->collect(outcomes, timeout);
}

bool ParallelSink::State::all_opened() const {
  return std::none_of(workers.begin(), workers.end(),
                      [](const Worker& worker) { return worker.must_open || worker.is_opening; });
}

// Each key has its worker. Events without a key go to the workers in turn.
std::size_t ParallelSink::State::worker_of(const Event& event) {
  if (workers.size() == 1) return 0;
  if (!event.has_key()) return next_without_key++ % workers.size();
  return scale_below(spread(event.key_hash), workers.size());
}

std::unique_ptr<ParallelSink::Part> ParallelSink::State::take_part() {
  std::unique_ptr<Part> part;
  const Lock lock(mutex);
  if (spare.empty()) return std::make_unique<Part>();
  part = std::move(spare.back());
  spare.pop_back();
  return part;
}

void ParallelSink::State::submit(Events events) {
  std::vector<std::unique_ptr<Part>> parts(workers.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    std::unique_ptr<Part>& part = parts[worker_of(*events[i])];
    if (!part) {
      part = take_part();
      part->batch.clear();
      part->index.clear();
    }
    part->batch.append(*events[i]);
    part->index.push_back(i);
  }
  const Lock lock(mutex);
  Submission& added = submitted.emplace_back();
  added.number = failed.number_batch();
  added.outcomes.resize(events.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) continue;
    parts[i]->submission = added.number;
    ++added.parts_left;
    workers[i].queued.push_back(std::move(parts[i]));
    workers[i].wake.notify_one();
  }
}

Result<bool> ParallelSink::State::collect(std::span<Outcome> outcomes, Duration timeout) {
  Lock lock(mutex);
  const auto is_told = [this] { return submitted.front().parts_left == 0 || trouble; };
  if (submitted.empty()) {
    if (trouble) return fail(*trouble);
    return false;
  }
  if (!is_told() && !told.wait_for(lock, timeout, is_told)) return false;
  Submission& oldest = submitted.front();
  if (oldest.parts_left > 0) return fail(*trouble);
  DOVETAIL_CHECK(outcomes.size() == oldest.outcomes.size());
  std::move(oldest.outcomes.begin(), oldest.outcomes.end(), outcomes.begin());
  failed.handed_out(oldest.number);
  submitted.pop_front();
  return true;
}

// True: it was left behind.
bool ParallelSink::State::run(Worker& worker) {
  Lock lock(mutex);
  for (;;) {
    worker.wake.wait(lock, [&] { return is_ending || worker.must_open || may_work(worker); });
    if (is_ending) break;
    if (worker.must_open) {
      open_one(worker, lock);
    } else if (!worker.queued.empty()) {
      submit_part(worker, lock);
    } else {
      collect_part(worker, lock);
    }
  }
  if (is_closing) {
    lock.unlock();
    Status closed = worker.sink->close();
    lock.lock();
    worker.closed = std::move(closed);
  }
  return std::exchange(worker.is_left_behind, false);
}

bool ParallelSink::State::may_work(const Worker& worker) {
  if (!is_running || (worker.queued.empty() && worker.in_flight.empty())) return false;
  return clock.now() < permit_until;
}

void ParallelSink::State::open_one(Worker& worker, Lock& lock) {
  worker.must_open = false;
  worker.is_opening = true;
  worker.in_flight.clear();
  lock.unlock();
  Status opened = worker.sink->open();
  lock.lock();
  worker.opened = std::move(opened);
  worker.is_opening = false;
  told.notify_all();
}

void ParallelSink::State::submit_part(Worker& worker, Lock& lock) {
  std::unique_ptr<Part> part = std::move(worker.queued.front());
  worker.queued.pop_front();
  choose(*part);
  if (part->tried.empty()) return finish(std::move(part));
  const Events events = part->tried;
  worker.in_flight.push_back(std::move(part));
  lock.unlock();
  Status submitted_now = worker.sink->submit(events);
  lock.lock();
  // After an error of another sink, or open(), the sink is opened again whatever this call
  // returned.
  if (is_running && !submitted_now) give_up(std::move(submitted_now.error()));
}

// An event that failed since the part was queued blocks the later events of its key.
void ParallelSink::State::choose(Part& part) {
  part.tried.clear();
  part.tried_at.clear();
  const auto events = part.batch.events();
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (failed.block(events[i].key_hash, part.submission)) {
      Submission& submission = submitted[part.submission - submitted.front().number];
      submission.outcomes[part.index[i]] =
          Outcome{Fate::again, 0, "not tried: an earlier event of its key failed"};
    } else {
      part.tried.push_back(&events[i]);
      part.tried_at.push_back(part.index[i]);
    }
  }
  part.outcomes.assign(part.tried.size(), Outcome{});
}

void ParallelSink::State::collect_part(Worker& worker, Lock& lock) {
  Part& part = *worker.in_flight.front();
  lock.unlock();
  Result<bool> known = worker.sink->collect(part.outcomes, kCollectWait);
  lock.lock();
  if (!is_running) return;
  if (!known) return give_up(std::move(known.error()));
  if (!*known) return;
  std::unique_ptr<Part> done = std::move(worker.in_flight.front());
  worker.in_flight.pop_front();
  finish(std::move(done));
}

void ParallelSink::State::finish(std::unique_ptr<Part> part) {
  Submission& submission = submitted[part->submission - submitted.front().number];
  for (std::size_t i = 0; i < part->tried.size(); ++i) {
    const Fate fate = part->outcomes[i].fate;
    if (fate != Fate::confirmed && fate != Fate::duplicate)
      failed.add(part->tried[i]->key_hash, part->submission);
    submission.outcomes[part->tried_at[i]] = std::move(part->outcomes[i]);
  }
  spare.push_back(std::move(part));
  if (--submission.parts_left == 0 && &submission == &submitted.front()) told.notify_all();
}

void ParallelSink::State::give_up(Error error) {
  is_running = false;
  trouble = std::move(error);
  told.notify_all();
}

}  // namespace dovetail
