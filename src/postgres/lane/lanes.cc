#include "postgres/lane/lanes.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "host/owner.h"
#include "postgres/connection/session.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/lane/relay_state.h"
#include "postgres/lane/statements.h"
#include "postgres/mapped/catalog.h"
#include "postgres/mapped/publication.h"
#include "postgres/mapped/rows.h"
#include "postgres/mapped/source.h"
#include "postgres/mapped/windows.h"
#include "postgres/outbox/source.h"
#include "postgres/schema/schema.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {

namespace {

using Kind = RelayNotice::Kind;

constexpr std::string_view kOthers =
    "SELECT owner, encode(timestamptz_send(expires), 'hex') FROM dovetail.relay_process "
    "WHERE relay = $1 AND owner <> $2 AND expires >= clock_timestamp()";

// Reports that this process lives, removes dead processes, and returns our place among the rest.
// $4: the dead ones.
constexpr std::string_view kHeartbeat =
    "WITH beat AS (INSERT INTO dovetail.relay_process (relay, owner, expires) "
    "VALUES ($1, $2, clock_timestamp() + $3 * interval '1 microsecond') "
    "ON CONFLICT (relay, owner) DO UPDATE SET expires = excluded.expires), "
    "gone AS (DELETE FROM dovetail.relay_process WHERE relay = $1 AND owner <> $2 "
    "AND (expires < clock_timestamp() - interval '1 minute' OR owner = ANY ($4))) "
    "SELECT count(*) FILTER (WHERE owner < $2), count(*) FROM dovetail.relay_process "
    "WHERE relay = $1 AND owner <> $2 AND expires >= clock_timestamp() AND owner <> ALL ($4)";

// How often pending rows of a mapped table are counted at most, and the pause after a count as a
// multiple of its duration.
constexpr Duration kCountEvery = std::chrono::seconds(5);
constexpr int kCountPauses = 20;

// How often a process looks at the slot of a relay that is paused, and that slot.
constexpr Duration kLookAtSlotEvery = std::chrono::seconds(5);
constexpr std::string_view kUnusedSlot =
    "SELECT slot FROM dovetail.relay_lane WHERE relay = $1 AND lane = 0 AND slot <> '' AND owner = "
    "'' AND hold IN ('paused', 'drained')";

constexpr std::string_view kLeave =
    "DELETE FROM dovetail.relay_process WHERE relay = $1 AND owner = $2";

}  // namespace

std::uint32_t fair_share(std::uint32_t lanes, std::uint32_t place, std::uint32_t processes) {
  return lanes / processes + (place < lanes % processes ? 1 : 0);
}

// A lane that this process runs.
struct Runner {
  Reader reader;
  LeaseWatch watch{};  // what was seen of the holder before
  std::unique_ptr<Sink> sink;
  std::atomic<bool> ended{false};
  std::atomic<bool> standing_by{false};  // another process was faster, or the relay is held
  Status result{};                       // when it has ended
  bool is_leaving = false;
  std::mutex mutex{};                   // of the next three
  std::optional<SpokenState> spoken{};  // the last report of its relay
  bool is_written = true;
  TimePoint written_at{};
  std::jthread thread{};  // last: it must end before the other members are destroyed
};

struct Lanes::State {
  LanesOptions options;
  Clock& clock;
  MakeSink make_sink;
  std::string owner;
  RelayMetrics metrics{};
  std::atomic<std::uint64_t> wal_settled{0};
  Connection connection{};
  std::string history{};  // the server's timeline, as last seen
  std::uint32_t lanes = 0;
  std::string awaited{};  // the last text about who holds lanes that we could run
  std::int64_t no_epoch = kNoLeaseNow;
  bool binary = true;  // whether the mapped table can be read in binary form
  std::map<std::string, LeaseWatch> others_seen{};  // what we have seen of the other processes
  std::map<std::uint32_t, LeaseWatch> holders{};    // and of the holders of lanes
  TimePoint slot_look_at{};                         // when an unused slot is looked at next
  TimePoint count_at{};                             // when pending rows are counted next
  TimePoint failing_since{};                        // since when beat() fails
  TimePoint own_state_at{};                         // when the reason was last written
  mutable std::mutex mutex{};                       // guards `runners`
  std::map<std::uint32_t, std::unique_ptr<Runner>> runners{};

  State(LanesOptions given, Clock& given_clock, MakeSink given_make_sink)
      : options(std::move(given)), clock(given_clock), make_sink(std::move(given_make_sink)) {
    owner = lease_owner(options.owner);
  }

  void note(Kind kind, std::string text) const {
    options.notify(-1, RelayNotice{kind, std::move(text)});
  }

  Status connect();
  Status beat();
  Status check_history(Connection& opened);
  Status check_mode(std::uint32_t stored);
  void start(std::uint32_t lane);
  // Lanes cannot share one stream.
  bool reads_wal() const { return lanes == 1; }
  // A mapped table without marks.
  bool is_mapped_wal() const { return options.mapping && options.mapping->from_wal; }
  WalSourceOptions wal_options(Runner& runner);
  Status run_mapped_wal(Runner& runner, Parking& parking, std::stop_token stop);
  Status run(Runner& runner, std::stop_token stop);
  Status run(Runner& runner, Source& source, Parking& parking, std::stop_token stop);
  Result<std::uint32_t> find_share();
  Result<std::vector<std::uint32_t>> find_free_lanes();
  void balance(std::uint32_t share, const std::vector<std::uint32_t>& free);
  std::vector<std::uint32_t> held_lanes() const;
  void keep_states();
  void keep_backlog();
  void bound_unused_slot();
  void keep_own_state(const Error& error);
  std::optional<Error> sweep();
  void leave();
};

// A table that does not fit is refused before anything is written.
Status Lanes::State::connect() {
  Result<Connection> opened = Connection::open(options.conninfo);
  if (!opened) return fail(opened.error());
  DOVETAIL_TRY(check_schema(*opened));
  if (options.mapping) {
    const Result<CatalogTable> table = look_up(*opened, *options.mapping);
    if (!table) return fail(table.error());
    binary = can_be_binary(*table, *options.mapping);
  }
  const std::string filter = options.relay_options.filter.json();
  const Carried carried{.filter = filter};
  const FirstStart start{.relay = options.relay,
                         .source = options.mapping ? SourceKind::mapped : SourceKind::outbox,
                         .lanes = options.lanes,
                         // Rows that somebody deletes later are made again for all events.
                         .starts_now = options.starts_now && lanes == 0,
                         .target = options.target};
  const Result<std::uint32_t> stored = ensure_relay(*opened, start, &carried);
  if (!stored) return fail(stored.error());
  if (lanes == 0 && *stored != options.lanes)
    note(Kind::started, "relay \"" + options.relay + "\" was first started with " +
                            std::to_string(*stored) + " lanes and keeps that number");
  if (!options.mapping || is_mapped_wal()) DOVETAIL_TRY(check_mode(*stored));
  lanes = *stored;
  DOVETAIL_TRY(check_history(*opened));
  connection = std::move(*opened);
  return {};
}

Status Lanes::State::check_mode(std::uint32_t stored) {
  if (is_mapped_wal() && options.reading.mode != ReadMode::wal)
    return fail(
        Errc::rejected,
        "a mapped table without marks is read from the WAL and needs mode = \"wal\"; set it");
  if (stored == 1 || options.reading.mode == ReadMode::poll) return {};
  const std::string why =
      "relay \"" + options.relay + "\" has " + std::to_string(stored) +
      " lanes, but the WAL needs a single lane; start it under another name with "
      "lanes = 1";
  if (options.reading.mode == ReadMode::wal) return fail(Errc::rejected, why);
  if (lanes == 0) note(Kind::source_changed, "reads the table: " + why + " to read the WAL");
  return {};
}

// Keeps our share of the lanes, as far as lanes are available.
Status Lanes::State::beat() {
  if (!connection) DOVETAIL_TRY(connect());
  const Result<std::uint32_t> share = find_share();
  if (!share) return fail(share.error());
  const Result<std::vector<std::uint32_t>> free = find_free_lanes();
  if (!free) return fail(free.error());
  balance(*share, *free);
  return {};
}

// How many of all lanes are our share.
Result<std::uint32_t> Lanes::State::find_share() {
  const Result<Rows> known = connection.query(kOthers, Params().text(options.relay).text(owner));
  if (!known) return fail(known.error());
  std::vector<std::string_view> gone;
  std::map<std::string, LeaseWatch> seen;
  for (std::size_t row = 0; row < known->size(); ++row) {
    const std::string_view other = known->text(row, 0);
    LeaseWatch& watch = seen[std::string(other)] = others_seen[std::string(other)];
    const bool is_silent =
        watch.is_free(known->text(row, 1), false, options.lease_term, clock.now());
    if (is_silent || is_gone(other)) gone.push_back(other);
  }
  others_seen = std::move(seen);
  const Result<Rows> others = connection.query(
      kHeartbeat,
      Params().text(options.relay).text(owner).int8(options.lease_term.count()).text_array(gone));
  if (!others) return fail(others.error());
  const auto place = static_cast<std::uint32_t>(others->int8(0, 0));
  const auto processes = static_cast<std::uint32_t>(others->int8(0, 1)) + 1;
  return fair_share(lanes, place, processes);
}

// Lanes that nobody holds, or whose holder is provably gone or renews nothing. A process without
// lanes that finds none reports whom it waits for.
Result<std::vector<std::uint32_t>> Lanes::State::find_free_lanes() {
  static const std::string select =
      "SELECT " + kHolderColumns + ", lane FROM dovetail.relay_lane WHERE relay = $1 ORDER BY lane";
  const Result<SqlRows> all =
      PostgresSession(connection).run(select, SqlParams().text(options.relay));
  if (!all) return fail(all.error());
  std::vector<std::uint32_t> free;
  for (std::size_t row = 0; row < all->size(); ++row) {
    const auto lane = static_cast<std::uint32_t>(all->integer(row, kHolderColumnCount));
    const LeaseHolder holder = holder_in(*all, row);
    if (stops(holder.hold)) continue;
    const bool is_free = holders[lane].is_free(
        holder.sign, holder.has_run_out, std::max(options.lease_term, holder.term), clock.now());
    if (is_free || holder.owner.empty() || is_gone(holder.owner)) free.push_back(lane);
  }
  const bool stands_by = free.empty() && runners.empty() && !all->empty();
  const LeaseHolder holder = stands_by ? holder_in(*all, 0) : LeaseHolder{};
  if (stops(holder.hold) && holder.owner.empty()) {
    const Error held = held_by_operator({options.relay, options.target, no_epoch}, holder);
    if (std::exchange(awaited, held.text) != held.text) note(Kind::held, held.text);
    return free;
  }
  if (std::exchange(awaited, holder.owner) == holder.owner || holder.owner.empty()) return free;
  note(Kind::standby,
       "lane " + std::to_string(all->integer(0, kHolderColumnCount)) + " of relay \"" +
           options.relay + "\" is held by " + shown_owner(holder.owner) + " for another " +
           std::to_string(longest_wait(holder, options.lease_term).count()) +
           " s unless renewed; this process waits, because it cannot prove that the owner "
           "has ended");
  return free;
}

// Lanes start over by themselves; this is for people.
Status Lanes::State::check_history(Connection& opened) {
  const Result<Rows> rows = opened.query("SELECT " + kHistory);
  if (!rows) return fail(rows.error());
  std::string now(rows->text(0, 0));
  if (!history.empty() && history != now)
    note(Kind::session_lost, "another server has taken over (timeline " + now + " after " +
                                 history +
                                 "); it resumes from its recorded progress, so the last events "
                                 "may be sent again");
  history = std::move(now);
  return {};
}

void Lanes::State::balance(std::uint32_t share, const std::vector<std::uint32_t>& free) {
  const std::lock_guard lock(mutex);
  std::uint32_t mine = 0;
  for (const auto& [lane, runner] : runners)
    if (!runner->is_leaving) ++mine;
  for (auto it = runners.rbegin(); it != runners.rend() && mine > share; ++it) {
    if (it->second->is_leaving) continue;
    it->second->is_leaving = true;
    it->second->thread.request_stop();
    --mine;
  }
  for (const std::uint32_t lane : free) {
    if (mine >= share) break;
    if (runners.contains(lane)) continue;
    start(lane);
    ++mine;
  }
}

void Lanes::State::start(std::uint32_t lane) {
  auto runner = std::make_unique<Runner>();
  runner->reader.conninfo = options.conninfo;
  runner->reader.relay = options.relay;
  runner->reader.target = options.target;
  runner->reader.lane = lane;
  runner->reader.lanes = lanes;
  runner->reader.call_max = call_max_of(options.lease_term);
  runner->watch = holders[lane];
  runner->sink = make_sink(lane);
  Runner& self = *runner;
  runner->thread = std::jthread([this, &self](std::stop_token stop) {
    self.result = run(self, stop);
    self.ended = true;
  });
  runners.emplace(lane, std::move(runner));
}

Status Lanes::State::run(Runner& runner, std::stop_token stop) {
  if (options.mapping && !is_mapped_wal()) {
    MappedSource source(runner.reader, *options.mapping, clock);
    MappedParking parking(runner.reader, source);
    return run(runner, source, parking, stop);
  }
  PostgresParking parking(runner.reader);
  if (is_mapped_wal()) return run_mapped_wal(runner, parking, stop);
  SourceOptions source_options;
  source_options.log = [this, &runner](std::string_view text) {
    options.notify(static_cast<std::int32_t>(runner.reader.lane),
                   RelayNotice{Kind::session_lost, std::string(text)});
  };
  PostgresSource windows(runner.reader, clock, std::move(source_options));
  if (!reads_wal()) return run(runner, windows, parking, stop);
  WalSource source(runner.reader, windows, clock, metrics, wal_options(runner));
  return run(runner, source, parking, stop);
}

Status Lanes::State::run_mapped_wal(Runner& runner, Parking& parking, std::stop_token stop) {
  const TableMapping& mapping = *options.mapping;
  MappedWindows windows(runner.reader, mapping, clock);
  WalSourceOptions wal = wal_options(runner);
  wal.publication = publication_of(options.relay, mapping);
  wal.checks_publication = false;
  wal.binary = binary;
  wal.slot = mapping.slot;
  wal.make_rows = [&windows, &mapping] {
    return mapped_rows(windows.table(), mapping, windows.last_position());
  };
  WalSource source(runner.reader, windows, clock, metrics, std::move(wal));
  return run(runner, source, parking, stop);
}

WalSourceOptions Lanes::State::wal_options(Runner& runner) {
  WalSourceOptions wal;
  wal.reading = options.reading;
  wal.replication_conninfo = options.replication_conninfo;
  wal.changed = [this, &runner](bool streams, std::string_view why) {
    options.notify(
        static_cast<std::int32_t>(runner.reader.lane),
        RelayNotice{Kind::source_changed,
                    (streams ? "reads the WAL " : "reads the table: ") + std::string(why)});
  };
  wal.wal_settled = [this](WalPosition position) { wal_settled = position.value; };
  return wal;
}

Status Lanes::State::run(Runner& runner, Source& source, Parking& parking, std::stop_token stop) {
  PostgresLease lease(runner.reader, clock, options.owner, options.lease_term,
                      std::move(runner.watch));
  RelayOptions relay_options = options.relay_options;
  relay_options.seed += runner.reader.lane;
  Relay relay(RelayPorts{source, *runner.sink, parking, lease, clock, metrics,
                         [this, &runner](const RelayNotice& notice) {
                           if (notice.kind == Kind::standby || notice.kind == Kind::held)
                             runner.standing_by = true;
                           if (notice.kind == Kind::started) runner.standing_by = false;
                           options.notify(static_cast<std::int32_t>(runner.reader.lane), notice);
                         },
                         options.topics,
                         [this, &runner](const RelayState& state) {
                           if (state.kind == RelayState::Kind::standby ||
                               state.kind == RelayState::Kind::held)
                             return;
                           const std::int64_t epoch = runner.reader.epoch;
                           const std::lock_guard lock(runner.mutex);
                           runner.spoken = SpokenState{state, epoch > 0 ? epoch : -1, clock.now()};
                           runner.is_written = false;
                         }},
              relay_options);
  return relay.run(stop);
}

// Uses the heartbeat's connection, so that it never delays a lane. Errors are ignored.
void Lanes::State::keep_states() {
  if (!connection) return;
  const std::lock_guard lock(mutex);
  for (const auto& [lane, runner] : runners) {
    std::optional<SpokenState> unwritten;
    {
      const std::lock_guard of_runner(runner->mutex);
      const bool is_repeated = runner->spoken && needs_repeating(*runner->spoken) &&
                               clock.now() - runner->written_at >= kStateRepeatedEvery;
      if (runner->is_written && !is_repeated) continue;
      unwritten = runner->spoken;
      runner->is_written = true;
      runner->written_at = clock.now();
    }
    if (!unwritten) continue;
    const LaneName name{options.relay, lane, lanes};
    if (write_state(connection, name, owner, *unwritten, clock.now())) continue;
    const std::lock_guard of_runner(runner->mutex);
    runner->is_written = false;
  }
}

// Only the relay can count the pending rows of a mapped table, for dovetail.lag. A slow count is
// made rarely.
void Lanes::State::keep_backlog() {
  if (!options.mapping || !connection || clock.now() < count_at) return;
  const TimePoint begun = clock.now();
  for (const std::uint32_t lane : held_lanes())
    if (!write_backlog(connection, {options.relay, lane, lanes}, *options.mapping)) break;
  count_at = clock.now() + std::max<Duration>(kCountEvery, kCountPauses * (clock.now() - begun));
}

// While a relay is paused nobody keeps its slot. The bound holds all the same: its process gives
// the slot up, and the relay then continues with the table.
void Lanes::State::bound_unused_slot() {
  if (options.reading.mode != ReadMode::wal || clock.now() < slot_look_at) return;
  slot_look_at = clock.now() + kLookAtSlotEvery;
  const Result<Rows> unused = connection.query(kUnusedSlot, Params().text(options.relay));
  if (!unused || unused->empty()) return;
  const std::string slot(unused->text(0, 0));
  const Result<std::optional<SlotState>> found = find_slot(connection, slot);
  if (!found || !*found || (*found)->retained_bytes <= options.reading.retained_wal_max) return;
  const Status dropped = drop_slot(connection, slot, {options.relay, 0, kUnfenced});
  note(Kind::source_changed, dropped
                                 ? "gives up the slot " + slot +
                                       ", for which the server keeps more WAL than "
                                       "retained_wal_max while the relay is paused"
                                 : "cannot give up the slot " + slot + ": " + dropped.error().text);
}

// A process that cannot take part has no lane; it reports for the first one.
void Lanes::State::keep_own_state(const Error& error) {
  const TimePoint now = clock.now();
  if (failing_since == TimePoint{}) failing_since = now;
  const bool is_away = error.code == Errc::unavailable || error.code == Errc::in_doubt;
  if (is_away || !held_lanes().empty() || now < own_state_at + kStateRepeatedEvery) return;
  Result<Connection> opened = Connection::open(options.conninfo);
  if (!opened || !check_schema(*opened)) return;
  const RelayState state{RelayState::Kind::halted, now - failing_since, error.text, {}};
  (void)write_state(*opened, {options.relay, 0, 1}, owner, SpokenState{state, -1, now}, now);
  own_state_at = now;
}

// Drops lanes that others took first and lanes that have ended. Returns why one must not
// continue.
std::optional<Error> Lanes::State::sweep() {
  const std::lock_guard lock(mutex);
  std::optional<Error> halted;
  for (auto it = runners.begin(); it != runners.end();) {
    Runner& runner = *it->second;
    if (runner.standing_by && !runner.is_leaving) {
      runner.is_leaving = true;
      runner.thread.request_stop();
    }
    if (!runner.ended) {
      ++it;
      continue;
    }
    runner.thread.join();
    if (!runner.result) halted = runner.result.error();
    it = runners.erase(it);
  }
  return halted;
}

// Drains all lanes at the same time and removes this process, so that others need not wait.
void Lanes::State::leave() {
  std::map<std::uint32_t, std::unique_ptr<Runner>> leaving;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [lane, runner] : runners) runner->thread.request_stop();
    leaving.swap(runners);
  }
  leaving.clear();
  if (connection) (void)connection.query(kLeave, Params().text(options.relay).text(owner));
  connection.close();
}

std::vector<std::uint32_t> Lanes::State::held_lanes() const {
  const std::lock_guard lock(mutex);
  std::vector<std::uint32_t> held;
  for (const auto& [lane, runner] : runners)
    if (!runner->is_leaving && !runner->ended) held.push_back(lane);
  return held;
}

Lanes::Lanes(LanesOptions options, Clock& clock, MakeSink make_sink)
    : state_(std::make_unique<State>(std::move(options), clock, std::move(make_sink))) {}

Lanes::~Lanes() = default;

Status Lanes::run(std::stop_token stop) {
  State& state = *state_;
  bool was_lost = false;
  std::optional<Error> halted;
  while (!stop.stop_requested() && !halted) {
    halted = state.sweep();
    if (halted) break;
    const Status beaten = state.beat();
    const bool halts =
        !beaten && (beaten.error().code == Errc::rejected || beaten.error().code == Errc::corrupt);
    if (!beaten) state.keep_own_state(beaten.error());
    if (halts && state.options.relay_options.gives_up) {
      halted = beaten.error();
      break;
    }
    // Running lanes have their own leases and continue.
    if (!beaten && !was_lost)
      state.note(halts ? Kind::halted : Kind::session_lost, beaten.error().text);
    was_lost = !beaten;
    if (beaten) {
      state.failing_since = state.own_state_at = TimePoint{};
      state.keep_states();
      state.keep_backlog();
      state.bound_unused_slot();
    }
    state.clock.sleep(std::min(state.options.heartbeat, state.options.lease_term / 3), stop);
  }
  state.leave();
  if (!halted) return {};
  state.note(Kind::halted, halted->text);
  return fail(std::move(*halted));
}

std::vector<std::uint32_t> Lanes::held() const { return state_->held_lanes(); }

const RelayMetrics& Lanes::metrics() const { return state_->metrics; }
std::uint64_t Lanes::wal_settled() const { return state_->wal_settled; }

}  // namespace dovetail::postgres
