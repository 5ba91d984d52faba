#include "host/parallel_sink.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/wide.h"

namespace dovetail {

namespace {

// How long a thread waits in its sink before it looks for something new to submit.
constexpr Duration kCollectWait = std::chrono::milliseconds(5);

// The relay may have only those keys whose hashes lie next to each other, so the hash alone would
// not spread them.
std::uint64_t spread(std::uint64_t hash) {
  hash ^= hash >> 31;
  hash *= 0x9e3779b97f4a7c15U;
  return hash ^ hash >> 29;
}

}  // namespace

ParallelSink::ParallelSink(std::vector<Sink*> sinks, Clock& clock, ParallelSinkOptions options)
    : clock_(clock), options_(options) {
  DOVETAIL_CHECK(!sinks.empty());
  for (Sink* sink : sinks) workers_.emplace_back().sink = sink;
}

ParallelSink::ParallelSink(std::vector<std::unique_ptr<Sink>> owned, Clock& clock,
                           ParallelSinkOptions options)
    : owned_(std::move(owned)), clock_(clock), options_(options) {
  DOVETAIL_CHECK(!owned_.empty());
  for (const auto& sink : owned_) workers_.emplace_back().sink = sink.get();
}

ParallelSink::~ParallelSink() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  for (Worker& worker : workers_) worker.wake.notify_one();
  for (Worker& worker : workers_)
    if (worker.thread.joinable()) worker.thread.join();
}

bool ParallelSink::keeps_order_on_failure() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.sink->keeps_order_on_failure(); });
}

bool ParallelSink::any_busy() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.is_busy; });
}

Status ParallelSink::open() {
  Lock lock(mutex_);
  is_running_ = false;
  trouble_.reset();
  submitted_.clear();
  failed_.clear();
  for (Worker& worker : workers_) worker.queued.clear();
  if (!told_.wait_for(lock, options_.quiet_max, [this] { return !any_busy(); }))
    return fail(Errc::unavailable,
                "a thread is still busy with what it was given before; check for a handler that "
                "hangs");
  DOVETAIL_TRY(start_threads());
  for (Worker& worker : workers_) {
    worker.in_flight.clear();
    worker.must_open = true;
    worker.is_busy = true;  // from here on, so that nobody takes it for done
    worker.wake.notify_one();
  }
  told_.wait(lock, [this] { return !any_busy(); });
  for (const Worker& worker : workers_)
    if (!worker.opened) return worker.opened;
  is_running_ = true;
  return {};
}

Status ParallelSink::start_threads() {
  try {
    for (Worker& worker : workers_)
      if (!worker.thread.joinable()) worker.thread = std::thread([this, &worker] { run(worker); });
  } catch (const std::system_error& error) {
    return fail(Errc::unavailable, std::string("a thread could not be started: ") + error.what() +
                                       "; check the limit of threads");
  }
  return {};
}

// Each key has its worker; those without one are dealt out in turn.
std::size_t ParallelSink::worker_of(const Event& event) {
  if (!event.has_key()) return next_without_key_++ % workers_.size();
  return scale_below(spread(event.key_hash), workers_.size());
}

std::unique_ptr<ParallelSink::Part> ParallelSink::take_part() {
  std::unique_ptr<Part> part;
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) return std::make_unique<Part>();
  part = std::move(spare_.back());
  spare_.pop_back();
  return part;
}

Status ParallelSink::submit(Events events) {
  std::vector<std::unique_ptr<Part>> parts(workers_.size());
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
  const Lock lock(mutex_);
  Submission& added = submitted_.emplace_back();
  added.number = failed_.number_batch();
  added.outcomes.resize(events.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) continue;
    parts[i]->submission = added.number;
    ++added.parts_left;
    workers_[i].queued.push_back(std::move(parts[i]));
    workers_[i].wake.notify_one();
  }
  permit(Duration{0});
  return {};
}

void ParallelSink::permit(Duration at_least) {
  const TimePoint now = clock_.now();
  const bool was_over = now >= permit_until_;
  permit_until_ = std::max(permit_until_, now + std::max(at_least, options_.permit));
  if (!was_over) return;
  for (Worker& worker : workers_) worker.wake.notify_one();
}

Result<bool> ParallelSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  Lock lock(mutex_);
  permit(timeout);
  const auto is_told = [this] { return submitted_.front().parts_left == 0 || trouble_; };
  if (submitted_.empty()) {
    if (trouble_) return fail(*trouble_);
    return false;
  }
  if (!is_told() && !told_.wait_for(lock, timeout, is_told)) return false;
  Submission& oldest = submitted_.front();
  if (oldest.parts_left > 0) return fail(*trouble_);
  DOVETAIL_CHECK(outcomes.size() == oldest.outcomes.size());
  std::move(oldest.outcomes.begin(), oldest.outcomes.end(), outcomes.begin());
  failed_.handed_out(oldest.number);
  submitted_.pop_front();
  return true;
}

void ParallelSink::run(Worker& worker) {
  Lock lock(mutex_);
  for (;;) {
    worker.wake.wait(lock, [&] { return is_ending_ || worker.must_open || may_work(worker); });
    if (is_ending_) return;
    if (worker.must_open) {
      open_one(worker, lock);
    } else if (!worker.queued.empty()) {
      submit_part(worker, lock);
    } else {
      collect_part(worker, lock);
    }
  }
}

bool ParallelSink::may_work(const Worker& worker) {
  if (!is_running_ || (worker.queued.empty() && worker.in_flight.empty())) return false;
  return clock_.now() < permit_until_;
}

void ParallelSink::open_one(Worker& worker, Lock& lock) {
  worker.must_open = false;
  lock.unlock();
  Status opened = worker.sink->open();
  lock.lock();
  worker.opened = std::move(opened);
  leave_call(worker);
}

void ParallelSink::leave_call(Worker& worker) {
  worker.is_busy = false;
  if (!is_running_) told_.notify_all();  // open() waits for all of them
}

void ParallelSink::submit_part(Worker& worker, Lock& lock) {
  std::unique_ptr<Part> part = std::move(worker.queued.front());
  worker.queued.pop_front();
  choose(*part);
  if (part->tried.empty()) return finish(std::move(part));
  const Events events = part->tried;
  worker.in_flight.push_back(std::move(part));
  worker.is_busy = true;
  lock.unlock();
  Status submitted = worker.sink->submit(events);
  lock.lock();
  leave_call(worker);
  if (!submitted) give_up(std::move(submitted.error()));
}

// What failed since the part was queued holds back what stands behind it on its key.
void ParallelSink::choose(Part& part) {
  part.tried.clear();
  part.tried_at.clear();
  const auto events = part.batch.events();
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (failed_.block(events[i].key_hash, part.submission)) {
      Submission& submission = submitted_[part.submission - submitted_.front().number];
      submission.outcomes[part.index[i]] =
          Outcome{Fate::again, 0, "not tried: an earlier event of its key failed"};
    } else {
      part.tried.push_back(&events[i]);
      part.tried_at.push_back(part.index[i]);
    }
  }
  part.outcomes.assign(part.tried.size(), Outcome{});
}

void ParallelSink::collect_part(Worker& worker, Lock& lock) {
  Part& part = *worker.in_flight.front();
  worker.is_busy = true;
  lock.unlock();
  Result<bool> known = worker.sink->collect(part.outcomes, kCollectWait);
  lock.lock();
  leave_call(worker);
  // After an error elsewhere its sink is opened again, whatever it says now.
  if (!is_running_) return;
  if (!known) return give_up(std::move(known.error()));
  if (!*known) return;
  std::unique_ptr<Part> done = std::move(worker.in_flight.front());
  worker.in_flight.pop_front();
  finish(std::move(done));
}

void ParallelSink::finish(std::unique_ptr<Part> part) {
  Submission& submission = submitted_[part->submission - submitted_.front().number];
  for (std::size_t i = 0; i < part->tried.size(); ++i) {
    const Fate fate = part->outcomes[i].fate;
    if (fate != Fate::confirmed && fate != Fate::duplicate)
      failed_.add(part->tried[i]->key_hash, part->submission);
    submission.outcomes[part->tried_at[i]] = std::move(part->outcomes[i]);
  }
  spare_.push_back(std::move(part));
  if (--submission.parts_left == 0 && &submission == &submitted_.front()) told_.notify_all();
}

void ParallelSink::give_up(Error error) {
  if (!is_running_) return;
  is_running_ = false;
  trouble_ = std::move(error);
  told_.notify_all();
}

}  // namespace dovetail
