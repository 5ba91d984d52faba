// The application's API of a relay: the daemon's configuration, run in the caller's process.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "assembly/brokers/brokers.h"
#include "assembly/consumer_lane.h"
#include "assembly/database.h"
#include "assembly/housekeeping.h"
#include "assembly/wiring.h"
#include "dovetail/relay.h"
#include "host/errand.h"
#include "host/host.h"

namespace dovetail {

using config::StoreConfig;

namespace {

constexpr auto kChoresEvery = std::chrono::milliseconds(500);

// A relay of the configuration, or a consumer, which is a relay, too.
struct Chosen {
  const config::RelayConfig* relay = nullptr;
  const config::ConsumerConfig* consumer = nullptr;
};

Result<Chosen> choose(const config::Config& config, const std::string& name) {
  std::vector<Chosen> all;
  for (const config::RelayConfig& relay : config.relays) all.push_back({&relay});
  for (const config::ConsumerConfig& consumer : config.consumers)
    all.push_back({&consumer.relay, &consumer});
  if (name.empty() && all.size() == 1) return all.front();
  std::string known;
  for (const Chosen& one : all) {
    if (one.relay->name == name) return one;
    known += (known.empty() ? "" : ", ") + one.relay->name;
  }
  std::string text = config.file.string() + ": ";
  if (all.empty()) {
    text += "there is no [[relay]] and no [[consumer]]; add one";
  } else if (name.empty()) {
    text += "there are several relays; set EmbeddedRelayOptions::name to one of: " + known;
  } else {
    text += "no relay or consumer is called \"" + name + "\"; there are: " + known;
  }
  return fail(Errc::rejected, std::move(text));
}

// All stores that it uses.
std::vector<StoreConfig*> stores_of(config::Config& config, const Chosen& chosen) {
  std::vector<std::string> names{chosen.relay->from, chosen.relay->to};
  if (chosen.consumer != nullptr)
    for (const config::HandlerConfig& handler : chosen.consumer->handlers)
      names.push_back(handler.store);
  std::vector<StoreConfig*> stores;
  for (StoreConfig& store : config.stores)
    if (std::find(names.begin(), names.end(), store.name) != names.end()) stores.push_back(&store);
  return stores;
}

LogLevel public_level(config::LogLevel level) {
  switch (level) {
    case config::LogLevel::debug:
    case config::LogLevel::info:
      return LogLevel::info;
    case config::LogLevel::warn:
      return LogLevel::warn;
    case config::LogLevel::error:
      return LogLevel::error;
  }
  return LogLevel::error;
}

RelayCounts counts_in(const RelayMetrics& metrics) {
  RelayCounts counts;
  // Each duplicate also counts as confirmed, and that count comes first.
  counts.duplicates = metrics.duplicates.load();
  counts.delivered = metrics.confirmed.load();
  counts.failed = metrics.failed.load() + metrics.rejected.load();
  counts.parked = metrics.parked.load();
  counts.in_flight = metrics.window_events.load();
  counts.reconnects = metrics.sink_errors.load();
  counts.lease_losses = metrics.fenced.load();
  counts.latency_p50 = metrics.commit_to_confirm.quantile(0.5);
  counts.latency_p99 = metrics.commit_to_confirm.quantile(0.99);
  return counts;
}

}  // namespace

// Shared with the housekeeping thread, so that run() need not wait for it at the end.
struct EmbeddedRelay::State : std::enable_shared_from_this<State> {
  State(EmbeddedRelayOptions given, config::Config loaded)
      : options(std::move(given)), config(std::move(loaded)) {}

  Status prepare();
  Status run(std::stop_token stop);
  Status start_threads();
  void end();
  void tell(LogLevel level, std::string_view subject, std::string_view event,
            std::string_view text);
  void tell_pruned(const StoreConfig& store, const Result<PruneReport>& report, bool again);
  void do_chores();
  void measure(const std::stop_token& stop);

  const EmbeddedRelayOptions options;
  config::Config config;
  Chosen chosen{};
  std::vector<const StoreConfig*> databases{};
  std::unique_ptr<assembly::Lane> lane{};
  std::atomic<bool> has_run{false};
  std::mutex mutex{};       // guards the hooks and the members below
  bool is_running = false;  // false: no hook is called
  std::condition_variable ended{};
  std::jthread measuring{};
};

Status EmbeddedRelay::State::prepare() {
  const Result<Chosen> found = choose(config, options.name);
  if (!found) return fail(found.error());
  chosen = *found;
  for (StoreConfig* store : stores_of(config, chosen)) {
    DOVETAIL_TRY(assembly::prepare_store(*store));
    if (!store->unusable.empty()) return fail(Errc::rejected, store->unusable);
    if (!store->is_broker()) databases.push_back(store);
  }
  auto notify = [this](const RelayNotice& notice) {
    tell(public_level(assembly::level_of(notice.kind)), chosen.relay->name, to_string(notice.kind),
         notice.text);
  };
  auto made = chosen.consumer == nullptr
                  ? assembly::make_lane(config, *chosen.relay, system_clock(), std::move(notify))
                  : assembly::make_consumer_lane(config, *chosen.consumer, system_clock(),
                                                 std::move(notify));
  if (!made) return fail(made.error());
  lane = std::move(*made);
  return {};
}

void EmbeddedRelay::State::tell(LogLevel level, std::string_view subject, std::string_view event,
                                std::string_view text) {
  if (!options.log) return;
  const std::lock_guard lock(mutex);
  if (is_running) options.log({level, subject, event, text});
}

// Missing rights are reported once.
void EmbeddedRelay::State::tell_pruned(const StoreConfig& store, const Result<PruneReport>& report,
                                       bool again) {
  if (report && report->rows() != 0)
    tell(LogLevel::info, store.name, "pruned", std::to_string(report->rows()) + " rows pruned");
  if (!report && !(again && report.error().code == Errc::rejected))
    tell(LogLevel::warn, store.name, "not_pruned", "not pruned: " + report.error().text);
}

void EmbeddedRelay::State::do_chores() {
  assembly::Housekeeping housekeeping(
      databases, config.retention, system_clock(),
      [this](const StoreConfig& store, const Result<PruneReport>& report, bool again) {
        tell_pruned(store, report, again);
      });
  std::unique_lock lock(mutex);
  while (is_running) {
    lock.unlock();
    housekeeping.work();
    lock.lock();
    ended.wait_for(lock, kChoresEvery, [this] { return !is_running; });
  }
}

void EmbeddedRelay::State::measure(const std::stop_token& stop) {
  const auto every = std::max(options.metrics_every, std::chrono::milliseconds(1));
  do {
    system_clock().sleep(every, stop);
    options.metrics(counts_in(lane->metrics()));
  } while (!stop.stop_requested());
}

Status EmbeddedRelay::State::start_threads() {
  try {
    run_errand([self = shared_from_this()] { self->do_chores(); });
    if (options.metrics)
      measuring = std::jthread([this](const std::stop_token& done) { measure(done); });
  } catch (const std::system_error& error) {
    end();
    return fail(Errc::unavailable, std::string("a thread could not be started: ") + error.what() +
                                       "; check the limit of threads");
  }
  return {};
}

// No hook is called after it.
void EmbeddedRelay::State::end() {
  const std::lock_guard lock(mutex);
  is_running = false;
  ended.notify_all();
}

Status EmbeddedRelay::State::run(std::stop_token stop) {
  {
    const std::lock_guard lock(mutex);
    is_running = true;
  }
  const StoreConfig& to = *config.find_store(chosen.relay->to);
  if (Status started = start_threads(); !started) return started;
  if (const std::string_view caution = assembly::caution_of(to); !caution.empty())
    tell(LogLevel::warn, to.name, "caution", caution);
  Status result = lane->run(std::move(stop));
  if (measuring.joinable()) {  // it reports the last counts before it ends
    measuring.request_stop();
    measuring.join();
  }
  end();
  return result;
}

EmbeddedRelay::EmbeddedRelay(std::shared_ptr<State> state) : state_(std::move(state)) {}
EmbeddedRelay::~EmbeddedRelay() = default;

Result<std::unique_ptr<EmbeddedRelay>> EmbeddedRelay::open(EmbeddedRelayOptions options) {
  if (options.file.empty() && options.config.empty())
    return fail(Errc::rejected,
                "EmbeddedRelayOptions has neither `file` nor `config`; set one of them");
  auto loaded = options.config.empty() ? config::load_config(options.file)
                                       : config::parse_config(options.config, options.file);
  if (!loaded) return fail(loaded.error());
  auto state = std::make_shared<State>(std::move(options), std::move(*loaded));
  DOVETAIL_TRY(state->prepare());
  return std::unique_ptr<EmbeddedRelay>(new EmbeddedRelay(std::move(state)));
}

Status EmbeddedRelay::run(std::stop_token stop) {
  if (state_->has_run.exchange(true))
    return fail(Errc::rejected, "this relay has run already; open another one");
  return state_->run(std::move(stop));
}

RelayCounts EmbeddedRelay::counts() const { return counts_in(state_->lane->metrics()); }

}  // namespace dovetail
