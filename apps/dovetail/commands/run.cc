#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "assembly/brokers/brokers.h"
#include "assembly/consumer_lane.h"
#include "assembly/database.h"
#include "assembly/housekeeping.h"
#include "assembly/wiring.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "commands/run_checks.h"
#include "config/units.h"
#include "console/console.h"
#include "host/errand.h"
#include "host/host.h"
#include "overview/cause.h"
#include "process/log.h"
#include "process/signals.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct RunOptions {
  std::vector<std::string> relays;  // names; empty: all
  bool until_idle = false;          // stop when every relay is idle
  std::string idle_after = "5s";    // silence of a broker
};

using namespace std::chrono_literals;
using config::LogLevel;

// One relay or consumer in its thread.
struct Running {
  Job job;
  const config::RelayConfig* config;
  std::unique_ptr<Lane> lane;
  std::uint64_t duplicates_logged = 0;
  // For a WAL that may have events that no table has.
  std::optional<std::uint64_t> log_wanted{};  // its end when nothing else was left to do
  Duration lease_left = Duration::max();      // last check of the end
  // When it was asked to stop.
  std::uint64_t streams = 0;
  std::uint64_t retained_wal_bytes = 0;
  std::atomic<bool> ended{false};
  Status result{};
  std::jthread thread{};

  void tell_to_stop() {
    streams = lane->metrics().streams;
    retained_wal_bytes = lane->metrics().retained_wal_bytes;
    thread.request_stop();
  }
  void start() {
    thread = std::jthread([this](std::stop_token stop) {
      result = lane->run(stop);  // it has logged why it had to stop
      ended = true;
    });
  }
};

constexpr Duration kLookWaitMin = 50ms;
constexpr Duration kLookWaitMax = 1s;

// The main thread takes the signals, so it never calls anything that may block. Other threads do
// that; they may still be busy at exit, so they share ownership of this object.
class Daemon : public std::enable_shared_from_this<Daemon> {
 public:
  Daemon(config::Config config, RunOptions options, Duration idle_after)
      : config_(std::move(config)), options_(std::move(options)), idle_after_(idle_after) {}

  Answer run(bool json);

 private:
  std::vector<Job> jobs() const;
  Expected<std::vector<Job>> chosen() const;
  template <class Work>
  std::optional<std::invoke_result_t<Work>> beside(Work work);
  Expected<bool> start();
  Expected<bool> start_relays();
  void log_cautions() const;
  void main_loop();
  void do_chores();
  void log_duplicates();
  bool all_ended() const;
  bool idle_now();
  bool idle() const;
  bool is_quiet(const Running& relay) const;
  bool is_log_read(Running& relay, const StoreStatus& store,
                   const assembly::RelayStatus& reader) const;
  Expected<std::unique_ptr<Running>> make(const Job& job);
  void tell_of_disk(const config::RelayConfig& relay, const RelayNotice& notice);
  std::uint64_t parked() const;
  Json report(bool of_consumers) const;
  std::string summary(std::uint64_t parked_now) const;

  const config::Config config_;
  const RunOptions options_;
  const Duration idle_after_;
  std::vector<std::unique_ptr<Running>> relays_;
  console::Roster roster_;
  console::Console console_{config_, roster_};
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_idle_{false};
  StartChecks checks_{config_, options_.until_idle};
  // Used by do_chores().
  TimePoint look_at_{};
  TimePoint looked_at_{};
  Duration look_wait_ = kLookWaitMin;
  std::uint64_t handled_ = 0;  // events at the last call
};

std::vector<Job> Daemon::jobs() const {
  std::vector<Job> all;
  for (const config::RelayConfig& relay : config_.relays) all.push_back({&relay});
  for (const config::ConsumerConfig& consumer : config_.consumers)
    all.push_back({&consumer.relay, &consumer});
  return all;
}

Expected<std::vector<Job>> Daemon::chosen() const {
  const std::vector<Job> all = jobs();
  if (all.empty()) {
    return refuse(Exit::config,
                  config_.file.string() + " has no [[relay]] and no [[consumer]] to run");
  }
  if (options_.relays.empty()) return all;
  std::vector<Job> some;
  std::string known;
  for (const Job& job : all) {
    known += (known.empty() ? "" : ", ") + job.relay->name;
    const auto& names = options_.relays;
    if (std::find(names.begin(), names.end(), job.relay->name) != names.end()) some.push_back(job);
  }
  for (const std::string& name : options_.relays) {
    if (std::any_of(some.begin(), some.end(),
                    [&](const Job& job) { return job.relay->name == name; })) {
      continue;
    }
    std::string text = "the config has no relay or consumer \"";
    text += name;
    text += "\"; it has: ";
    return refuse(Exit::rejected, text + known);
  }
  return some;
}

Expected<std::unique_ptr<Running>> Daemon::make(const Job& job) {
  auto running = std::make_unique<Running>();
  running->job = job;
  running->config = job.relay;
  auto notify = [this, relay = job.relay](const RelayNotice& notice) {
    log_line(level_of(notice.kind), relay->name, notice.text,
             {{"event", dovetail::to_string(notice.kind)}});
    tell_of_disk(*relay, notice);
  };
  auto lane = job.consumer == nullptr
                  ? make_lane(config_, *job.relay, system_clock(), std::move(notify))
                  : make_consumer_lane(config_, *job.consumer, system_clock(), std::move(notify));
  if (!lane) return refuse(lane.error());
  running->lane = std::move(*lane);
  return running;
}

// A store whose disk is full keeps no report of a relay, so the console hears it from here.
void Daemon::tell_of_disk(const config::RelayConfig& relay, const RelayNotice& notice) {
  using Kind = RelayNotice::Kind;
  if (is_disk_full(notice.text))
    console_.note_full_disk(relay.name, notice.text);
  else if (notice.kind == Kind::started || notice.kind == Kind::sink_restored)
    console_.note_full_disk(relay.name, std::nullopt);
}

// Runs a call to a store or a broker in another thread and takes signals meanwhile. None: a signal
// came first.
template <class Work>
std::optional<std::invoke_result_t<Work>> Daemon::beside(Work work) {
  using Outcome = std::invoke_result_t<Work>;
  auto task = std::make_shared<std::packaged_task<Outcome()>>(
      [self = shared_from_this(), work = std::move(work)] { return work(); });
  std::future<Outcome> done = task->get_future();
  run_errand([task] { (*task)(); });
  while (done.wait_for(0s) != std::future_status::ready)
    if (wait_for_stop_signal(2ms)) return std::nullopt;
  return done.get();
}

// The console comes first: it answers while a store that is away holds up the relays. A script
// that delivers and ends has none.
Expected<bool> Daemon::start() {
  if (!options_.until_idle) DOVETAIL_OR_REFUSE(console_.start(shared_from_this()));
  return start_relays();
}

Expected<bool> Daemon::start_relays() {
  auto jobs = chosen();
  if (!jobs) return tl::unexpected(jobs.error());
  if (const auto checked = checks_.check_stores(*jobs); !checked) return checked;
  if (const auto checked = checks_.check_brokers(*jobs, shared_from_this()); !checked)
    return checked;
  if (const auto checked = checks_.check_consumers(*jobs); !checked) return checked;
  for (const Job& job : *jobs) {
    auto running = make(job);
    if (!running) return tl::unexpected(running.error());
    relays_.push_back(std::move(*running));
  }
  std::vector<console::Member> members;
  for (const auto& relay : relays_)
    members.push_back({relay->config, relay->job.consumer, relay->lane.get()});
  roster_.set(std::move(members));
  log_cautions();
  for (const auto& relay : relays_) {
    if (is_stopping_) break;
    if (relay->job.consumer != nullptr)
      log_line(LogLevel::info, relay->config->name, describe(config_, *relay->job.consumer),
               {{"event", "consumer"}});
    relay->start();
  }
  return true;
}

void Daemon::log_cautions() const {
  std::set<std::string> told;  // several relays may fill one store
  for (const auto& relay : relays_) {
    const config::StoreConfig& to = *config_.find_store(relay->config->to);
    const std::string_view caution = assembly::caution_of(to);
    if (!caution.empty() && told.insert(to.name).second) log_line(LogLevel::warn, to.name, caution);
  }
}

bool Daemon::all_ended() const {
  return std::all_of(relays_.begin(), relays_.end(),
                     [](const auto& relay) { return relay->ended.load(); });
}

// While events flow, or if nothing moves for long, the stores are asked rarely, because each check
// needs a connection and a count.
bool Daemon::idle_now() {
  const TimePoint now = system_clock().now();
  if (now < look_at_) return false;
  std::uint64_t handled = 0;
  for (const auto& relay : relays_) {
    const RelayMetrics& metrics = relay->lane->metrics();
    handled += metrics.settled.load() + metrics.replayed.load();
  }
  const bool moved = std::exchange(handled_, handled) != handled;
  if (moved) look_wait_ = kLookWaitMin;
  if (moved && now < looked_at_ + kLookWaitMax) {
    look_at_ = now + look_wait_;
    return false;
  }
  looked_at_ = now;
  if (idle()) return true;
  look_at_ = system_clock().now() + look_wait_;
  look_wait_ = std::min(2 * look_wait_, kLookWaitMax);
  return false;
}

// A broker does not say how many messages are left. Idle means: nothing came for a while, and
// everything read is settled.
bool Daemon::is_quiet(const Running& relay) const {
  const auto since = relay.lane->quiet_since();
  return since && relay.lane->metrics().window_events.load() == 0 &&
         system_clock().now() - *since >= idle_after_;
}

// Rows that were deleted at once exist only in the WAL and do not count as pending. So the relay
// reads the WAL up to its end at the time when nothing else was left. A live process that owns the
// lane does that itself.
bool Daemon::is_log_read(Running& relay, const StoreStatus& store,
                         const assembly::RelayStatus& reader) const {
  const config::RelayConfig& config = *relay.config;
  const bool has_table = config_.find_store(config.from)->tables.contains(config.name);
  if (!has_table || config.reading.mode != ReadMode::wal) return true;
  const bool is_ours = reader.owner.empty() || reader.owner.starts_with(process_label() + "#");
  const Duration left = std::exchange(relay.lease_left, reader.lease_left);
  if (!is_ours && reader.lease_left > left) return true;
  if (!relay.log_wanted) relay.log_wanted = store.wal_end;
  return relay.lane->wal_settled() >= *relay.log_wanted;
}

// Nothing pending, nothing in flight, and no automatic retry left.
bool Daemon::idle() const {
  for (const auto& relay : relays_) {
    const config::StoreConfig& store = home_of(*relay->config, config_);
    if (config_.find_store(relay->config->from)->is_broker() && !is_quiet(*relay)) return false;
    const auto status = database_of(store)->status();
    if (!status) return false;
    const auto reader =
        std::find_if(status->relays.begin(), status->relays.end(),
                     [&](const auto& one) { return one.name == relay->config->name; });
    // What an operator has paused or drained has nothing left to do.
    if (reader != status->relays.end() && stops(reader->hold.hold)) continue;
    if (reader == status->relays.end() || reader->pending != 0 || !reader->error.empty()) {
      relay->log_wanted.reset();
      return false;
    }
    if (!is_log_read(*relay, *status, *reader)) return false;
    if (reader->waiting == 0) continue;
    ParkedFilter filter;
    filter.relay = relay->config->name;
    filter.heads_only = true;
    filter.limit = 1'000'000;
    const auto heads = database_of(store)->list_parked(filter);
    if (!heads) return false;
    if (std::any_of(heads->begin(), heads->end(),
                    [](const auto& row) { return row.state == EventState::waiting; })) {
      return false;
    }
  }
  return true;
}

std::uint64_t Daemon::parked() const {
  std::uint64_t count = 0;
  for (const auto& relay : relays_) {
    const config::StoreConfig& store = home_of(*relay->config, config_);
    const auto status = database_of(store)->status();
    if (!status) continue;
    for (const auto& reader : status->relays) {
      if (reader.name == relay->config->name) count += reader.parked;
    }
  }
  return count;
}

// After a crash the sink recognises events that the last session sent and did not settle. Log the
// number.
void Daemon::log_duplicates() {
  for (const auto& relay : relays_) {
    const std::uint64_t now = relay->lane->metrics().duplicates.load();
    if (now == relay->duplicates_logged) continue;
    const bool is_broker = config_.find_store(relay->config->to)->is_broker();
    const char* where = relay->job.consumer != nullptr ? "inbox" : is_broker ? "broker" : "mailbox";
    log_line(LogLevel::info, relay->config->name,
             std::string("duplicates suppressed by the ") + where,
             {{"event", "duplicates"}, {"count", std::to_string(now - relay->duplicates_logged)}});
    relay->duplicates_logged = now;
  }
}

// A relay need not own the tables; then an operator prunes. Logged once.
void log_pruned(const config::StoreConfig& store, const Result<PruneReport>& report, bool again) {
  if (!report) {
    log_line(again && report.error().code == Errc::rejected ? LogLevel::debug : LogLevel::warn,
             store.name, "not pruned: " + report.error().text);
  } else if (report->rows() != 0) {
    log_line(LogLevel::info, store.name, "pruned", {{"rows", std::to_string(report->rows())}});
  }
}

// What the report says about a clock that was set, which holds up all deletion.
std::optional<std::string> wrong_clock(const Result<PruneReport>& report) {
  if (report || report.error().text.find("nothing is deleted") == std::string::npos)
    return std::nullopt;
  return report.error().text;
}

// Calls that keep a store busy, or wait for it.
void Daemon::do_chores() {
  std::vector<const config::StoreConfig*> stores;
  for (const config::StoreConfig& store : config_.stores) stores.push_back(&store);
  Housekeeping housekeeping(
      std::move(stores), config_.retention, system_clock(),
      [this](const config::StoreConfig& store, const Result<PruneReport>& report, bool again) {
        log_pruned(store, report, again);
        console_.note_clock(store.name, wrong_clock(report));
      });
  while (!is_stopping_) {
    housekeeping.work();
    if (options_.until_idle && !is_stopping_ && idle_now()) is_idle_ = true;
    if (is_idle_) return;
    std::this_thread::sleep_for(20ms);
  }
}

void Daemon::main_loop() {
  bool stopping = false;
  run_errand([self = shared_from_this()] { self->do_chores(); });
  while (!all_ended()) {
    const auto signal = wait_for_stop_signal(stopping ? 5ms : 20ms);
    if (signal && stopping && is_urgent(*signal)) {
      log_line(LogLevel::warn, "", "second signal: exiting at once");
      ::_exit(128 + *signal);
    }
    log_duplicates();
    if ((!signal && !is_idle_) || stopping) continue;
    stopping = true;
    is_stopping_ = true;
    if (signal) log_line(LogLevel::info, "", "stopping: events in flight may finish");
    for (const auto& relay : relays_) relay->tell_to_stop();
  }
  is_stopping_ = true;
  for (const auto& relay : relays_) relay->thread.join();
  log_duplicates();
  console_.stop();
}

Json Daemon::report(bool of_consumers) const {
  Json list = Json::array();
  for (const auto& relay : relays_) {
    if ((relay->job.consumer != nullptr) != of_consumers) continue;
    const RelayMetrics& metrics = relay->lane->metrics();
    list.push_back(
        {{"name", relay->config->name},
         {"delivered", metrics.confirmed.load()},
         {"duplicates_suppressed", metrics.duplicates.load()},
         {"failed", metrics.failed.load()},
         {"parked", metrics.parked.load()},
         {"replayed", metrics.replayed.load()},
         {"reads_wal", relay->streams},
         {"wal_starts", metrics.stream_starts.load()},
         {"wal_ends", metrics.stream_ends.load()},
         {"retained_wal_bytes", relay->retained_wal_bytes},
         {"commit_to_confirm_p50_us", metrics.commit_to_confirm.quantile(0.5).count()},
         {"commit_to_confirm_p99_us", metrics.commit_to_confirm.quantile(0.99).count()}});
  }
  return list;
}

// "delivered 7; handled 5; 1 parked, see ..."
std::string Daemon::summary(std::uint64_t parked_now) const {
  std::uint64_t delivered = 0;
  std::uint64_t handled = 0;
  bool any_relay = false;
  bool any_consumer = false;
  for (const auto& relay : relays_) {
    const RelayMetrics& metrics = relay->lane->metrics();
    if (relay->job.consumer == nullptr) {
      any_relay = true;
      delivered += metrics.confirmed.load();
    } else {
      any_consumer = true;
      // A duplicate counts as confirmed too.
      handled += metrics.confirmed.load() - metrics.duplicates.load();
    }
  }
  std::string text;
  if (any_relay) text += "delivered " + config::human_count(delivered);
  if (any_consumer) text += (any_relay ? "; handled " : "handled ") + config::human_count(handled);
  if (parked_now != 0)
    text += "; " + config::human_count(parked_now) + " parked, see 'dovetail parked list'";
  return text + "\n";
}

Answer Daemon::run(bool json) {
  block_stop_signals();
  const auto started = beside([this] { return start(); });
  if (!started) {  // stopped before anything started
    is_stopping_ = true;
    console_.stop();
    return Exit::ok;
  }
  if (!*started) {
    console_.stop();
    return tl::unexpected(started->error());
  }
  main_loop();
  for (const auto& relay : relays_) {
    if (!relay->result) {
      return refuse({relay->result.error().code, std::string(relay->job.noun()) + " " +
                                                     relay->config->name + ": " +
                                                     relay->result.error().text});
    }
  }
  std::uint64_t parked_now = 0;
  if (options_.until_idle) {
    const auto counted = beside([this] { return parked(); });
    if (!counted) return Exit::ok;
    parked_now = *counted;
  }
  // --json prints one document; an error is also a document.
  if (json && checks_.away().empty()) {
    Json document{{"relays", report(false)}, {"consumers", report(true)}};
    if (options_.until_idle) document["parked"] = parked_now;
    print_json(document);
  } else if (!json && options_.until_idle) {
    print(summary(parked_now));
  }
  if (!checks_.away().empty())
    return refuse(Exit::unavailable, "some relays or consumers could not run: " + checks_.away());
  return parked_now == 0 ? Exit::ok : Exit::negative;
}

Answer run(const CommandContext& context, const RunOptions& options) {
  auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  // A daemon waits until a problem is fixed; a script needs the error.
  for (config::RelayConfig& relay : config->relays) relay.options.gives_up = options.until_idle;
  for (config::ConsumerConfig& consumer : config->consumers)
    consumer.relay.options.gives_up = options.until_idle;
  const auto idle_after = duration_of(options.idle_after, "--idle-after");
  if (!idle_after) return tl::unexpected(idle_after.error());
  log_setup(config->log);
  return std::make_shared<Daemon>(*config, options, *idle_after)->run(context.json);
}

}  // namespace

void add_run(Command& app) {
  const auto options = std::make_shared<RunOptions>();
  Command sub = app.command(
      "run", "Run the relays and consumers of the config file, until SIGTERM or SIGINT",
      "Each [[relay]] and each [[consumer]] has its own threads. After the first SIGTERM or "
      "SIGINT, "
      "events in\n"
      "flight may finish; a second signal exits at once, which is safe, too. A second 'dovetail "
      "run' on the\n"
      "same stores stands by and takes over when the first one dies.\n\n"
      "  dovetail run                       the daemon\n"
      "  dovetail run --until-idle          deliver everything, then stop (for scripts)\n"
      "  dovetail run orders-to-inventory   only this relay, or this consumer",
      [options](const CommandContext& context) { return run(context, *options); });
  sub.option("relay", options->relays, "Names of relays and consumers; default: all");
  sub.flag("--until-idle,--once", options->until_idle,
           "Stop when nothing is left to deliver; exit 1 if an event is parked");
  sub.option("--idle-after", options->idle_after,
             "A broker is idle after this time without a message, for example 500ms; for "
             "--until-idle")
      .shows_default();
}

}  // namespace dovetail::app
