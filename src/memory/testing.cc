// The doubles of dovetail/testing.h.
#include "dovetail/testing.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "core/inbox/inbox.h"
#include "core/relay/relay.h"
#include "host/host.h"
#include "memory/inbox_store.h"
#include "memory/log.h"
#include "memory/reader.h"
#include "memory/sink.h"
#include "memory/source.h"

namespace dovetail::test {

namespace {

const std::string kConsumer = "test";

ReceivedEvent received_event(const Event& event) {
  ReceivedEvent copy;
  copy.id = event.id;
  copy.topic = event.topic;
  copy.aggregate_type = event.aggregate_type;
  copy.aggregate_id = event.aggregate_id;
  copy.type = event.type;
  copy.content_type = event.content_type;
  copy.headers = decode_headers(event.headers).value_or(std::vector<Header>{});
  copy.payload = event.payload;
  copy.aggregate_version = event.aggregate_version;
  return copy;
}

Result<EventId> add(MemoryLog& log, NewEvent event) {
  if (!event.id) event.id = new_event_id();
  const Result<std::int64_t> position = log.publish(event, system_clock().wall());
  if (!position) return fail(position.error());
  return *event.id;
}

Fate fate_of(dovetail::Fate fate) {
  switch (fate) {
    case dovetail::Fate::confirmed:
      return Fate::applied;
    case dovetail::Fate::duplicate:
      return Fate::duplicate;
    case dovetail::Fate::rejected:
      return Fate::parked;
    case dovetail::Fate::again:
    case dovetail::Fate::busy:
      return Fate::not_now;
    case dovetail::Fate::failed:
      break;
  }
  return Fate::failed;
}

}  // namespace

std::string_view to_string(Fate fate) {
  switch (fate) {
    case Fate::applied:
      return "applied";
    case Fate::duplicate:
      return "duplicate";
    case Fate::failed:
      return "failed";
    case Fate::not_now:
      return "not now";
    case Fate::parked:
      break;
  }
  return "parked";
}

struct Consumer::State {
  explicit State(Handler given)
      : handler(std::move(given)),
        store(database, kConsumer,
              [this](const Event& event, MemoryTransaction&) { return handler(event); }),
        inbox(store, InboxOptions{}) {}

  Handler handler;
  MemoryLog log{};
  MemoryInboxDatabase database{};
  MemoryInboxStore store;
  Inbox inbox;
};

Consumer::Consumer(Handler handler) : state_(std::make_unique<State>(std::move(handler))) {}
Consumer::~Consumer() = default;

Result<Outcome> Consumer::deliver(const NewEvent& event) {
  const std::int64_t before = state_->log.last_position();
  if (const Result<EventId> id = add(state_->log, event); !id) return fail(id.error());
  Batch batch;
  state_->log.read_behind(before, batch, Limits{1, std::size_t(-1), Duration{0}}, {});
  const Event* const one[] = {batch.events().data()};
  dovetail::Outcome outcome;
  DOVETAIL_TRY(state_->inbox.open());
  DOVETAIL_TRY(state_->inbox.submit(one));
  if (const auto done = state_->inbox.collect({&outcome, 1}, Duration{0}); !done)
    return fail(done.error());
  return Outcome{fate_of(outcome.fate), std::move(outcome.reason)};
}

std::uint64_t Consumer::applied() const { return state_->database.applied(kConsumer); }
std::uint64_t Consumer::duplicates() const { return state_->database.duplicates(kConsumer); }

struct Relay::State {
  State(Receive given, RelayOptions options) : receive(std::move(given)) {
    relay.attempts_max = options.attempts_max;
    relay.key_retry = RetryPolicy{options.retry_after, options.retry_after};
    relay.connect_retry = relay.key_retry;
    relay.gives_up = true;
    if (receive) sink.decide_by([this](const Event& event) { return decide(event); });
  }

  dovetail::Outcome decide(const Event& event) const {
    const Status taken = receive(received_event(event));
    if (taken) return {dovetail::Fate::confirmed, 0, {}};
    const Errc code = taken.error().code;
    return {code == Errc::rejected      ? dovetail::Fate::rejected
            : code == Errc::unavailable ? dovetail::Fate::busy
                                        : dovetail::Fate::failed,
            0, taken.error().text};
  }
  bool is_idle() const;

  Receive receive;
  dovetail::RelayOptions relay{};
  MemoryLog log{};
  MemoryReader reader{};
  MemorySink sink{};
};

// What waits behind a parked event needs an operator first.
bool Relay::State::is_idle() const {
  if (reader.settled() < log.last_position()) return false;
  using Key = std::pair<std::string, std::string>;
  std::set<Key> blocked;
  const std::vector<ParkedEvent> rows = reader.parked();
  for (const ParkedEvent& row : rows)
    if (row.state == ParkState::parked && !row.discarded)
      blocked.insert({row.event.aggregate_type, row.event.aggregate_id});
  return std::all_of(rows.begin(), rows.end(), [&](const ParkedEvent& row) {
    return row.discarded || row.state == ParkState::parked ||
           blocked.contains({row.event.aggregate_type, row.event.aggregate_id});
  });
}

Relay::Relay(Receive receive, RelayOptions options)
    : state_(std::make_unique<State>(std::move(receive), options)) {}
Relay::~Relay() = default;

Result<EventId> Relay::publish(const NewEvent& event) { return add(state_->log, event); }

Status Relay::run(std::chrono::milliseconds limit) {
  State& state = *state_;
  Clock& clock = system_clock();
  MemoryLease lease(state.reader, "test", std::chrono::seconds(10), clock);
  MemorySource source(state.log, state.reader, &lease);
  MemoryParking parking(state.reader, &lease);
  RelayMetrics metrics;
  dovetail::Relay relay(RelayPorts{source, state.sink, parking, lease, clock, metrics},
                        state.relay);
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Status> ended;
  std::jthread thread([&](std::stop_token stop) {
    Status result = relay.run(std::move(stop));
    const std::lock_guard lock(mutex);
    ended = std::move(result);
    changed.notify_all();
  });
  const auto end = std::chrono::steady_clock::now() + limit;
  bool is_late = false;
  {
    std::unique_lock lock(mutex);
    while (!ended && !is_late && !state.is_idle()) {
      changed.wait_for(lock, std::chrono::milliseconds(1));
      is_late = std::chrono::steady_clock::now() >= end;
    }
  }
  thread.request_stop();
  thread.join();
  if (!*ended) return *ended;
  if (is_late)
    return fail(Errc::failed, "the relay did not become idle in time; check the receiver");
  return {};
}

std::vector<ReceivedEvent> Relay::received() const {
  std::vector<ReceivedEvent> events;
  for (const StoredEvent& event : state_->sink.received())
    events.push_back(received_event(event.view()));
  return events;
}

std::vector<Relay::Parked> Relay::parked() const {
  std::vector<Parked> events;
  for (const ParkedEvent& row : state_->reader.parked())
    if (row.state == ParkState::parked && !row.discarded)
      events.push_back({received_event(row.event.view()), row.reason});
  return events;
}

bool Relay::replay(const EventId& id) { return state_->reader.replay(id, system_clock().wall()); }

}  // namespace dovetail::test
