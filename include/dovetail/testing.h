// For an application's own tests: a consumer and a relay in memory, without a server or a file. The
// inbox, the relay and their rules are the real ones; only what they write to is gone when the test
// ends. A SQLite handler can also be tested with sqlite::Consumer on a temporary file, and
// dovetail/postgres_testing.h records what a PostgreSQL handler does.
//
// One thread at a time uses an object.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail::test {

// An event that owns its texts.
struct ReceivedEvent {
  EventId id{};
  std::string topic{};
  std::string aggregate_type{};
  std::string aggregate_id{};
  std::string type{};
  std::string content_type{};
  std::vector<Header> headers{};
  std::string payload{};
  std::int64_t aggregate_version = 0;
};

enum class Fate : std::uint8_t {
  applied,    // the handler has applied it
  duplicate,  // it was applied before; the handler was not called
  failed,     // a failed attempt: a consumer would try again
  not_now,    // unavailable: a consumer would try again, and no attempt counts
  parked,     // it will never work: an operator decides
};
std::string_view to_string(Fate fate);

struct Outcome {
  Fate fate = Fate::applied;
  std::string reason{};  // empty if it was applied
};

// A consumer that gets its events one by one.
class Consumer {
 public:
  // What the test calls instead of a consumer: your handler, with a database of the test. It fails
  // by an error or an exception.
  using Handler = std::function<Status(const Event& event)>;

  explicit Consumer(Handler handler);
  ~Consumer();

  // Delivers the event now. With an id that was delivered before it comes again. As in a real
  // consumer, a handler that fails is called a second time. rejected: the event is not valid.
  Result<Outcome> deliver(const NewEvent& event);

  std::uint64_t applied() const;
  std::uint64_t duplicates() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct RelayOptions {
  std::uint32_t attempts_max = 3;            // failures, while others pass, before it is parked
  std::chrono::milliseconds retry_after{1};  // between the attempts
};

// A relay from an outbox to a receiver that records what it gets.
class Relay {
 public:
  // Decides about one event: Errc::rejected parks it, Errc::unavailable means "not now", any other
  // error is a failed attempt. Empty: takes all.
  using Receive = std::function<Status(const ReceivedEvent& event)>;

  explicit Relay(Receive receive = {}, RelayOptions options = {});
  ~Relay();

  // rejected: the event is not valid.
  Result<EventId> publish(const NewEvent& event);

  // Blocks until every event is received, parked or waits behind a parked one. Waits at most
  // `limit`. failed: the receiver takes nothing, or the time is over; then call it again.
  Status run(std::chrono::milliseconds limit = std::chrono::seconds(30));

  std::vector<ReceivedEvent> received() const;  // in the order of their arrival

  struct Parked {
    ReceivedEvent event{};
    std::string reason{};
  };
  std::vector<Parked> parked() const;  // they wait for an operator; not those that wait behind them
  // As an operator: the next run() sends it again, and what waits behind it. False: it is not
  // parked.
  bool replay(const EventId& id);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::test
