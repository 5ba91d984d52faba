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

  Sink* sink = nullptr;
  Parts queued{};     // not handed to the sink yet
  Parts in_flight{};  // in the sink's order
  bool must_open = false;
  bool is_opening = false;
  bool is_left_behind = false;  // its thread outlives the ParallelSink
  Status opened{};
  std::condition_variable wake{};
  std::thread thread{};
};

// The inner sinks belong to their workers' threads; in direct mode, when open, to the relay's.
// Everything else is guarded.
struct ParallelSink::State {
  using Lock = std::unique_lock<std::mutex>;

  State(Clock& given_clock, std::vector<std::unique_ptr<Sink>> given)
      : clock(given_clock), owned(std::move(given)) {}

  std::size_t worker_of(const Event& event);
  std::unique_ptr<Part> take_part();
  void submit(Events events);
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout);
  bool all_opened() const;
  void run(Worker& worker);
  bool may_work(const Worker& worker);
  void open_one(Worker& worker, Lock& lock);
  void submit_part(Worker& worker, Lock& lock);
  void collect_part(Worker& worker, Lock& lock);
  void choose(Part& part);
  void finish(std::unique_ptr<Part> part);
  void give_up(Error error);

  Clock& clock;
  std::vector<std::unique_ptr<Sink>> owned;
  std::deque<Worker> workers{};
  std::size_t next_without_key = 0;
  bool is_direct = false;  // a single sink that does not block

  std::mutex mutex{};
  std::condition_variable told{};  // wakes the relay's thread
  bool is_running = false;         // open, and no error since
  bool is_ending = false;
  std::optional<Error> trouble{};
  TimePoint permit_until = TimePoint::max();
  std::deque<Submission> submitted{};
  std::vector<std::unique_ptr<Part>> spare{};
  FailedKeys failed{};
};

ParallelSink::ParallelSink(std::vector<Sink*> sinks, Clock& clock)
    : state_(std::make_shared<State>(clock, std::vector<std::unique_ptr<Sink>>{})) {
  DOVETAIL_CHECK(!sinks.empty());
  for (Sink* sink : sinks) state_->workers.emplace_back().sink = sink;
  state_->is_direct = sinks.size() == 1 && !sinks.front()->blocks();
}

ParallelSink::ParallelSink(std::vector<std::unique_ptr<Sink>> owned, Clock& clock)
    : state_(std::make_shared<State>(clock, std::move(owned))) {
  DOVETAIL_CHECK(!state_->owned.empty());
  for (const auto& sink : state_->owned) state_->workers.emplace_back().sink = sink.get();
  state_->is_direct = state_->workers.size() == 1 && !state_->owned.front()->blocks();
}

ParallelSink::~ParallelSink() {
  State& state = *state_;
  const auto all_quiet = [&] {
    return std::none_of(state.workers.begin(), state.workers.end(),
                        [](const Worker& worker) { return worker.is_opening; });
  };
  {
    State::Lock lock(state.mutex);
    state.is_ending = true;
    for (Worker& worker : state.workers) worker.wake.notify_one();
    if (!state.owned.empty()) state.told.wait_for(lock, kOpeningEndsWithin, all_quiet);
    for (Worker& worker : state.workers) {
      if (!worker.is_opening || state.owned.empty()) continue;
      worker.is_left_behind = true;
      errand_began();
      worker.thread.detach();
    }
  }
  for (Worker& worker : state.workers)
    if (worker.thread.joinable()) worker.thread.join();
}

std::unique_ptr<Sink> in_background(std::unique_ptr<Sink> sink, Clock& clock) {
  std::vector<std::unique_ptr<Sink>> one;
  one.push_back(std::move(sink));
  return std::make_unique<ParallelSink>(std::move(one), clock);
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
  state.is_running = false;
  state.trouble.reset();
  state.submitted.clear();
  state.failed.clear();
  for (Worker& worker : state.workers) {
    worker.queued.clear();
    worker.must_open = true;
    worker.wake.notify_one();
  }
  try {
    for (Worker& worker : state.workers) {
      if (worker.thread.joinable()) continue;
      worker.thread = std::thread([shared = state_, &worker]() mutable {
        shared->run(worker);
        const bool is_left_behind = worker.is_left_behind;
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

void ParallelSink::State::run(Worker& worker) {
  Lock lock(mutex);
  for (;;) {
    worker.wake.wait(lock, [&] { return is_ending || worker.must_open || may_work(worker); });
    if (is_ending) return;
    if (worker.must_open) {
      open_one(worker, lock);
    } else if (!worker.queued.empty()) {
      submit_part(worker, lock);
    } else {
      collect_part(worker, lock);
    }
  }
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
