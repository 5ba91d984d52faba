#include "core/inbox/inbox.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/mutant.h"

namespace dovetail {

namespace {

bool is_refused(Arrival arrival) {
  return arrival == Arrival::forgotten || arrival == Arrival::conflict;
}

}  // namespace

std::string_view refusal_of(Arrival arrival) {
  return arrival == Arrival::conflict
             ? "its id was used twice: an event with this id and another payload was already "
               "applied; "
               "check the publisher, then discard this event or publish it again with a new id"
             : "it is older than what the inbox remembers, so it is unknown whether it was "
               "applied; "
               "check its effect, then discard it or run `dovetail inbox apply`";
}

Inbox::Inbox(InboxStore& store, InboxOptions options)
    : store_(store),
      options_(options),
      over_limit_(options.breaking_max),
      broke_alone_(options.breaking_max) {}

Status Inbox::open() {
  submitted_.clear();
  fence_.clear();
  const Result<bool> ended_well = store_.open();
  if (!ended_well) return fail(ended_well.error());
  // Only the first open() of this process shows how the previous process ended.
  if (!opened_before_ && !*ended_well) suspects_left_ = options_.suspects_max;
  opened_before_ = true;
  if (interrupted_) {
    // The handler did not end the process, so the attempt that the outage interrupted does not
    // count.
    DOVETAIL_TRY(store_.count_attempt(*interrupted_, -1));
    interrupted_.reset();
  }
  return {};
}

Status Inbox::close() {
  if (!opened_before_) return {};
  // open() takes back an attempt that an outage interrupted; a relay that stopped before that did
  // not get there.
  if (interrupted_) DOVETAIL_TRY(open());
  return store_.close();
}

Status Inbox::submit(Events events) {
  submitted_.push_back(Submitted{++last_submitted_, {events.begin(), events.end()}, {}, false});
  return {};
}

Result<bool> Inbox::collect(std::span<Outcome> outcomes, Duration) {
  if (submitted_.empty()) return false;
  Submitted& batch = submitted_.front();
  DOVETAIL_CHECK(outcomes.size() == batch.events.size());
  if (!batch.is_tried_alone && suspects_left_ == 0) {
    const Result<BatchResult> together = apply_together(batch, outcomes);
    if (!together) return fail(together.error());
    batch.is_tried_alone = *together == BatchResult::try_alone;
  } else {
    batch.is_tried_alone = true;
  }
  if (batch.is_tried_alone) {
    const Result<bool> done = apply_alone(batch);
    if (!done || !*done) return done;
    std::move(batch.alone.begin(), batch.alone.end(), outcomes.begin());
  }
  submitted_.pop_front();
  return true;
}

bool Inbox::fenced(const Event& event, std::uint64_t batch, Outcome& outcome) {
  if (!fence_.blocks(event.key_hash, batch)) return false;
  outcome = Outcome{Fate::again, 0, "not tried: an earlier event of its key failed"};
  return true;
}

Result<Inbox::BatchResult> Inbox::apply_together(const Submitted& batch,
                                                 std::span<Outcome> outcomes) {
  tried_.clear();
  tried_index_.clear();
  for (std::size_t i = 0; i < batch.events.size(); ++i) {
    if (fenced(*batch.events[i], batch.number, outcomes[i])) continue;
    tried_.push_back(batch.events[i]);
    tried_index_.push_back(i);
  }
  if (tried_.empty()) return BatchResult::committed;
  arrivals_.assign(tried_.size(), Arrival::first);

  DOVETAIL_TRY(store_.begin());
  DOVETAIL_TRY(store_.insert(tried_, arrivals_));
  if (DOVETAIL_MUTANT(inbox_row_commits_first)) {
    DOVETAIL_TRY(store_.commit(0, 0));
    DOVETAIL_TRY(store_.begin());
  }
  firsts_.clear();
  for (std::size_t i = 0; i < tried_.size(); ++i) {
    if (arrivals_[i] == Arrival::first) firsts_.push_back(tried_[i]);
  }
  const bool any_refused = std::any_of(arrivals_.begin(), arrivals_.end(), is_refused);
  if (any_refused || (!firsts_.empty() && !store_.apply(firsts_))) {
    // Trying the events one by one shows which one is at fault, and counts its attempts.
    if (!any_refused && store_.broke()) suspect_together();
    store_.rollback();
    return BatchResult::try_alone;
  }
  const Status committed = store_.commit(firsts_.size(), tried_.size() - firsts_.size());
  if (!committed && !DOVETAIL_MUTANT(ack_before_inbox_commit)) return fail(committed.error());
  for (std::size_t i = 0; i < tried_.size(); ++i) {
    const bool first = arrivals_[i] == Arrival::first;
    outcomes[tried_index_[i]] =
        Outcome{first ? Fate::confirmed : Fate::duplicate, 0, {}, !store_.wants(*tried_[i])};
  }
  return BatchResult::committed;
}

// After a handler that crashes the database server, there is no connection to try its batch one by
// one at once. So when the connection breaks twice with the same events in the batch, they are
// tried alone as soon as it is back.
void Inbox::suspect_together() {
  const auto was_there = [&](const Event* event) { return broke_together_.contains(event->id); };
  if (std::any_of(firsts_.begin(), firsts_.end(), was_there))
    suspects_left_ = std::max(suspects_left_, firsts_.size());
  broke_together_.clear();
  for (const Event* event : firsts_) broke_together_.insert(event->id);
}

// Whether the connection also broke in the previous attempt.
bool Inbox::breaks_again(const EventId& id) { return !broke_alone_.insert(id); }

// True: all events were tried.
Result<bool> Inbox::apply_alone(Submitted& batch) {
  const std::size_t end =
      std::min(batch.events.size(), batch.alone.size() + options_.alone_at_a_time);
  while (batch.alone.size() < end) {
    const Event& event = *batch.events[batch.alone.size()];
    Outcome outcome;
    if (!fenced(event, batch.number, outcome)) {
      DOVETAIL_TRY(apply_one(event, outcome));
      const bool safe = outcome.fate == Fate::confirmed || outcome.fate == Fate::duplicate;
      if (!safe) fence_.raise(event.key_hash, last_submitted_);
    }
    batch.alone.push_back(std::move(outcome));
  }
  return end == batch.events.size();
}

Status Inbox::refuse(Arrival why, Outcome& outcome) {
  store_.rollback();
  outcome = Outcome{Fate::rejected, 0, std::string(refusal_of(why))};
  return {};
}

Status Inbox::forgive(const EventId& id, std::int64_t count) {
  DOVETAIL_TRY(store_.count_attempt(id, -count));
  interrupted_.reset();
  return {};
}

Status Inbox::apply_one(const Event& event, Outcome& outcome) {
  Arrival arrival = Arrival::first;
  const Event* const one[] = {&event};
  DOVETAIL_TRY(store_.begin());
  DOVETAIL_TRY(store_.insert(one, {&arrival, 1}));
  if (is_refused(arrival)) return refuse(arrival, outcome);
  if (arrival != Arrival::first && !DOVETAIL_MUTANT(redelivery_burns_attempts)) {
    // An applied event is not tried again, so no attempt counts, however often it comes.
    DOVETAIL_TRY(store_.commit(0, 1));
    outcome = Outcome{Fate::duplicate};
    return {};
  }
  store_.rollback();

  interrupted_ = event.id;
  const Result<std::uint32_t> attempts = store_.count_attempt(event.id, +1);
  if (!attempts) return fail(attempts.error());
  if (*attempts > options_.attempts_max) {
    // After a rebalance, one of the attempts may belong to another member that still works on the
    // event. That one ends soon; the attempt of a dead process stays.
    if (over_limit_.insert(event.id)) {
      outcome =
          Outcome{Fate::again, 0, "not tried: another consumer may be working on it right now"};
      return forgive(event.id, 1);
    }
    over_limit_.erase(event.id);
    // Every earlier attempt ended with the process, so there is no further one. A replay starts
    // from 0.
    outcome = Outcome{Fate::rejected, *attempts - 1,
                      "the handler ended the process or the database connection " +
                          std::to_string(*attempts - 1) +
                          " times; check the handler, then replay the event"};
    return forgive(event.id, *attempts);
  }
  over_limit_.erase(event.id);

  DOVETAIL_TRY(store_.begin());
  DOVETAIL_TRY(store_.insert(one, {&arrival, 1}));
  if (is_refused(arrival)) {  // applied since the check above
    DOVETAIL_TRY(refuse(arrival, outcome));
    return forgive(event.id, 1);
  }
  if (DOVETAIL_MUTANT(inbox_row_commits_first)) {
    DOVETAIL_TRY(store_.commit(0, 0));
    DOVETAIL_TRY(store_.begin());
  }
  const bool first = arrival == Arrival::first;
  const Status applied = first ? store_.apply(one) : Status{};
  if (applied) {
    const Status committed = store_.commit(first ? 1 : 0, first ? 0 : 1);
    if (!committed && !DOVETAIL_MUTANT(ack_before_inbox_commit)) return fail(committed.error());
    if (first && suspects_left_ > 0) --suspects_left_;
    interrupted_.reset();
    broke_alone_.erase(event.id);
    outcome = Outcome{first ? Fate::confirmed : Fate::duplicate, 0, {}, !store_.wants(event)};
    return {};
  }

  return judge(event, applied.error(), *attempts, outcome);
}

// Judges the failure of a handler; `attempts` includes this one.
Status Inbox::judge(const Event& event, const Error& error, std::uint32_t attempts,
                    Outcome& outcome) {
  const bool broke = store_.broke();
  store_.rollback();
  if (suspects_left_ > 0) --suspects_left_;
  const bool is_away = error.code == Errc::unavailable;
  const bool is_its_own =
      (broke && breaks_again(event.id)) || (is_away && DOVETAIL_MUTANT(outage_burns_attempts));
  if (!broke) broke_alone_.erase(event.id);
  if (!is_its_own) {
    // The handler returned, so it ended neither the process nor the connection, and nothing counts
    // here. The relay judges whether this event is at fault or all fail.
    const Fate fate = is_away                        ? Fate::again
                      : error.code == Errc::rejected ? Fate::rejected
                                                     : Fate::failed;
    outcome = Outcome{fate, 0, error.text};
    return forgive(event.id, fate == Fate::rejected ? attempts : 1);
  }
  interrupted_.reset();
  outcome = Outcome{Fate::failed, 0,
                    "the database connection broke every time its handler ran, even without other "
                    "events; check the handler: " +
                        error.text};
  if (attempts < options_.attempts_max) return {};
  // The event is parked, and a replay starts from 0. If the database cannot store that, the event
  // comes again without attempts left and is rejected without being tried.
  broke_alone_.erase(event.id);
  outcome.fate = Fate::rejected;
  outcome.attempts = attempts;
  return forgive(event.id, attempts);
}

std::shared_ptr<Sink> inbox_on(std::unique_ptr<InboxStore> store, InboxOptions options) {
  struct Whole {
    Whole(std::unique_ptr<InboxStore> given, InboxOptions options)
        : store(std::move(given)), inbox(*store, options) {}
    std::unique_ptr<InboxStore> store;
    Inbox inbox;
  };
  const auto whole = std::make_shared<Whole>(std::move(store), options);
  return {whole, &whole->inbox};
}

}  // namespace dovetail
