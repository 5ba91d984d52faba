// The relay: carries events from a source to a sink.
//
// It reads ahead within an in-flight window bounded by count and bytes, keeps several batches in
// flight, accepts confirmations at any time, and settles confirmed events with the source as a
// contiguous prefix. An event is sent only when all earlier events of its key are safe. If an event
// fails, its key waits and is retried with growing pauses, soon from parking, so that the progress
// of other keys is not held back. If it fails often enough while others pass, it waits for an
// operator. If the sink fails for all keys, the relay backs off instead (failure_policy.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/clock.h"
#include "core/event/batch.h"
#include "core/failure/failure_policy.h"
#include "core/failure/pace.h"
#include "core/failure/retry.h"
#include "core/message/relay_filter.h"
#include "core/message/routing.h"
#include "core/metrics.h"
#include "core/relay/lease.h"
#include "core/relay/parking.h"
#include "core/relay/relay_report.h"
#include "core/relay/sink.h"
#include "core/relay/source.h"

namespace dovetail {

struct RelayOptions {
  // Behaviour
  std::uint32_t attempts_max = 15;  // failures of one event, while others pass, before it is parked
  Duration busy_for = std::chrono::minutes(15);  // how long "busy" does not count as a failure
  Duration confirm_timeout =
      std::chrono::seconds(30);  // silence of the sink that leads to a new connection
  Duration drain_timeout = std::chrono::seconds(10);  // for events in flight to finish after stop
  Duration replay_poll =
      std::chrono::milliseconds(250);  // how often parking is read while a key is blocked
  // For a key whose event failed while others passed.
  RetryPolicy key_retry = FailurePolicyOptions{}.key_retry;
  // For the sink's connection, a sick sink and the whole session. Its cap also limits the waits of
  // a key that fails while no other passes.
  RetryPolicy connect_retry{};
  Duration aside_after = std::chrono::milliseconds(
      100);  // an event that has to wait longer than this waits in parking
  // In memory. With more, parking is asked about the keys of each batch.
  std::size_t blocked_keys_max = 10'000;
  // For a run that is a step of a script: it ends with an error if it is halted, or if many batches
  // fail without a confirmation. Pending events stay. One pass of another key is then enough to
  // find a poison event, because no other key may be left.
  bool gives_up = false;
  // Gives up the order of a key (G3) for throughput on sinks that do not keep it after a failure:
  // many events of one key are in flight, and later ones overtake one that fails. A key still waits
  // behind a parked event.
  bool order_relaxed = false;
  RelayFilter filter{};  // the other events are skipped; a replay is not filtered
  // Performance
  std::size_t batch_events_max = 1000;
  std::size_t batch_bytes_max = 1 << 20;
  std::size_t batches_in_flight_max = 4;
  std::size_t window_events_max =
      8000;  // read and not durably settled; the most duplicates after a crash
  std::size_t window_bytes_max = 16 << 20;
  Duration idle_wait = std::chrono::milliseconds(250);  // the longest wait for a first event
  // Progress becomes durable this long after its first event, or when unrecorded events fill the
  // window. Each write leaves a dead row in many databases.
  Duration progress_interval = std::chrono::milliseconds(200);
  // A sink that blocks gets at a time about as much as takes this long, and it is settled then: a
  // sixth of the lease.
  Duration batch_time_max = std::chrono::milliseconds(1600);
  std::uint64_t seed = 1;  // for jitter
};

// A message for an operator: one per change of state, not one per try.
struct RelayNotice {
  enum class Kind : std::uint8_t {
    standby,  // another relay owns the lane
    held,     // an operator has paused or drained it
    started,  // lease held, source open
    sink_lost,
    sink_sick,  // it fails for all keys; only probes are sent
    sink_restored,
    session_lost,  // source, parking or lease failed; the session starts over
    parked,
    key_released,  // all parked events of a key are delivered or discarded
    stalled,
    source_changed,  // starts or stops reading the WAL
    halted,          // cannot continue as configured; it still retries
    reminder,        // still backing off or halted, once a minute
    drained,         // stopped cleanly
  };
  Kind kind;
  std::string text;
};

std::string_view to_string(RelayNotice::Kind kind);

// Everything that the relay works with. All must outlive it. It uses them on the thread that calls
// run().
struct RelayPorts {
  Source& source;
  Sink& sink;
  Parking& parking;
  Lease& lease;
  Clock& clock;
  RelayMetrics& metrics;
  std::function<void(const RelayNotice&)> notify = [](const RelayNotice&) {};
  const TopicTemplate* topics = nullptr;  // null: topics stay as the source gave them
  // Called when the state, its error or the time of the next try changes, but not for each try with
  // a short pause. The call must be short and must not throw.
  std::function<void(const RelayState&)> report = [](const RelayState&) {};
};

class Relay {
 public:
  Relay(RelayPorts ports, RelayOptions options);
  ~Relay();

  // Runs until `stop` is requested and the events in flight are settled; then releases the lease.
  // It survives every error: it waits and starts over, unless gives_up is set. One thread.
  Status run(std::stop_token stop);

 private:
  struct Flight;      // one batch read and not settled
  struct Entry;       // one event of it
  struct Line;        // the events of one key that wait for each other
  struct Submission;  // one batch given to the sink

  Status run_sessions(const std::stop_token& stop);
  // One session lasts until the lease, the source or the parking is lost.
  Status session(std::stop_token stop);
  Result<bool> is_over();
  Status wait_for_source(const std::stop_token& stop);
  Status step(std::stop_token stop);
  void recover_session();
  Status drain(bool is_last);
  void forget();
  bool survive(const Error& error, std::stop_token stop);

  Status check_deadline() const;
  Status hold_lease();
  void took_time(std::string_view what);
  Status read_source(std::stop_token stop);
  Status take_replays();
  Status reload_blocked_keys();
  Status learn_blocked_keys(const Flight& flight);
  std::vector<OrderKey> keys_in_window() const;
  Status open_sink();
  Result<bool> wait_for_sink();
  Status submit_ready();
  Status submit_probe();
  Status submit_one(std::size_t events_max);
  void choose_probe();
  Status collect();
  Status collect_one(Duration timeout, bool& collected);
  Status judge_sink(TimePoint now, bool delivered);
  Status park_pending();
  Status settle();
  Status write_progress();
  Status finish_replay();
  void rest(std::stop_token stop);

  Duration wait_limit(Duration limit) const;
  std::size_t batch_limit() const;
  TimePoint waits_since() const;
  std::size_t window_room() const;
  bool window_has_room() const;
  bool is_blocked(const Event& event) const;
  bool went_back_before(const Entry& entry) const;
  bool may_replay(const Entry& entry) const;
  bool sends_many_of_a_key() const;
  std::unique_ptr<Flight> take_flight(bool replay);
  void admit(Flight& flight);

  void place(Entry& entry);
  void join_line(std::uint64_t key, Entry& entry);
  void advance_line(std::uint64_t key);
  void leave_line(std::uint64_t key);
  void recall(std::uint64_t key);
  void hold_line(std::uint64_t key, Duration delay, bool counts);
  void release_due_lines();
  void release_uncounted_lines();
  using Held = std::set<std::pair<TimePoint, std::uint64_t>>;
  Held::iterator park_held_line(Held::iterator held);
  void move_aside();
  void park_held_lines();
  void make_room_in_outage();
  Status park_before_finished();

  void resolve(Entry& entry, const Outcome& outcome);
  void deliver(Entry& entry, const Outcome& outcome);
  void fail_once(Entry& entry, const Outcome& outcome);
  void retry_later(Entry& entry, const Outcome& outcome, Duration delay, bool counts);
  void park(Entry& entry, ParkState state, Duration delay, std::string reason);
  void park_defects();
  void block_key(const Entry& entry);
  void park_line(const Entry& entry);
  void park_behind(Entry& entry);
  void park_now(Entry& entry);
  void finish(Entry& entry, Settled fate);
  void note_sink_works();
  void lose_sink(const Error& error);
  void note(RelayNotice::Kind kind, std::string text);
  void report(RelayState::Kind kind, std::string_view error, Duration next_try);
  void report_delivery();

  RelayPorts ports_;
  RelayOptions options_;
  Random random_;
  FailurePolicy policy_;
  GaugePart window_events_gauge_{ports_.metrics.window_events};
  GaugePart window_bytes_gauge_{ports_.metrics.window_bytes};
  GaugePart blocked_keys_gauge_{ports_.metrics.blocked_keys};
  GaugePart sink_lost_gauge_{ports_.metrics.sinks_lost};
  StateGauge<RelayMetrics::kStates> state_gauge_{ports_.metrics.lanes_in_state};
  LatencyBatch commit_to_confirm_{ports_.metrics.commit_to_confirm};
  LatencyBatch receive_to_confirm_{ports_.metrics.receive_to_confirm};

  std::deque<std::unique_ptr<Flight>> flights_;  // in read order
  std::unique_ptr<Flight> replay_;               // the one batch taken from parking
  std::vector<std::unique_ptr<Flight>> spare_flights_;
  std::vector<std::unique_ptr<Flight>>
      limbo_;                         // of a lost session; the sink may still point at them
  std::deque<Entry*> ready_;          // next to be submitted
  std::deque<Submission> submitted_;  // in the sink's order
  std::vector<Submission> spare_submissions_;
  std::unordered_map<std::uint64_t, Line> lines_;
  Held held_;  // lines that wait for their next try, by time
  // Keys with events in parking, and the submission after which no event of the key is in
  // flight.
  std::map<OrderKey, std::uint64_t> blocked_;
  bool is_spilled_ = false;  // more keys are blocked than fit: only those of the window are here
  TimePoint recount_at_{};   // when to check again whether they fit
  std::vector<ParkRequest> park_requests_;  // decided, not yet durable
  std::vector<Entry*> park_entries_;        // the entries of park_requests_
  std::vector<Entry*> behind_flight_;       // parked once no earlier event is in flight
  std::vector<Outcome> outcomes_;           // reused by collect()
  std::vector<Settled> fates_;              // reused by settle()
  WallTime now_wall_{};                     // when the current batch was collected

  std::uint64_t next_order_ = 1;  // numbers entries in read order
  std::uint64_t submissions_made_ = 0;
  std::uint64_t submissions_collected_ = 0;
  std::size_t window_events_ = 0;
  std::size_t window_bytes_ = 0;
  std::size_t unwritten_events_ = 0;  // settled, but not durably
  bool sink_open_ = false;
  bool sink_opening_ = false;  // open() was called and has not finished
  bool opening_is_long_ = false;
  TimePoint opening_since_{};
  Pace pace_;
  TimePoint collected_at_{};  // the last submission
  // The longest step since the lease was renewed, to explain a lost lease.
  TimePoint timed_at_{};
  Duration longest_{0};
  std::string_view longest_what_ = "nothing";
  bool source_had_more_ = false;
  bool standing_by_ = false;
  bool reads_ = true;              // false: an operator drains the relay
  TimePoint ask_if_drained_at_{};  // whether something waits for its next try
  std::uint32_t sink_failures_ = 0;
  bool sink_missed_ = false;  // "lost" was reported, "works again" was not
  std::uint32_t session_failures_ = 0;
  bool was_halted_ = false;     // in the last session
  bool has_given_up_ = false;   // on a sink that confirms nothing
  std::string last_failure_{};  // of an event
  TimePoint session_since_{};
  TimePoint sink_retry_at_{};
  TimePoint renew_retry_at_{};
  TimePoint replay_poll_at_{};
  TimePoint make_room_at_{};       // then a sick sink lets one line make room
  TimePoint write_progress_at_{};  // if something is unwritten
  bool was_reported_ = false;
  RelayState reported_{};
  TimePoint state_since_{};
  TimePoint reminded_at_{};
};

}  // namespace dovetail
