#include "console/watch/watcher.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "config/units.h"
#include "host/errand.h"
#include "host/host.h"
#include "overview/progress.h"
#include "process/log.h"

namespace dovetail::console {
namespace {

using app::Exit;
using app::StoreView;

constexpr Duration kHangs = std::chrono::seconds(5);  // without an answer
constexpr int kRests = 20;                            // as long as the question took
constexpr Duration kRestMax = std::chrono::seconds(30);
constexpr Duration kLogProgressEvery = std::chrono::minutes(1);

}  // namespace

// Outlives the watcher in the hands of threads that wait for a database.
struct Watcher::Desk {
  struct Place {
    const config::StoreConfig* store = nullptr;
    StoreView view{};
    bool is_known = false;
    std::optional<TimePoint> asked_at{};  // and there is no answer yet
    WallTime asked_wall{};
    std::optional<TimePoint> answered_at{};
    std::map<std::string, TimePoint> logged_at{};  // the progress of a relay
  };

  Clock* clock = nullptr;
  Duration every{};
  std::mutex mutex{};
  std::condition_variable changed{};
  bool is_stopping = false;
  std::deque<Place> places{};                                  // of databases
  std::map<std::string, SaidState, std::less<>> full_disks{};  // by relay
  app::Progress progress{};

  void take(Place& place, app::Expected<assembly::StoreStatus> status);
  void log_progress(Place& place);
  void tell_full_disks(StoreView& view, const config::Config& config) const;
  void watch(Place& place);
};

// REQUIRES: the mutex is held.
void Watcher::Desk::take(Place& place, app::Expected<assembly::StoreStatus> status) {
  const bool had_failed = place.view.failure.has_value();
  place.is_known = true;
  if (status) {
    place.view.status = std::move(*status);
    place.view.failure.reset();
    place.view.since.reset();
    place.answered_at = clock->now();
    log_progress(place);
  } else {
    if (!had_failed) place.view.since = place.asked_wall;
    place.view.status.reset();
    place.view.failure = std::move(status.error());
  }
  place.asked_at.reset();
}

void Watcher::Desk::log_progress(Place& place) {
  const TimePoint now = clock->now();
  for (const assembly::RelayStatus& relay : place.view.status->relays) {
    if (!app::knows_pending(relay)) continue;
    progress.add(relay.name, relay.pending, clock->wall());
    const auto catch_up = progress.of(relay.name);
    const auto logged = place.logged_at.find(relay.name);
    if (!catch_up || (logged != place.logged_at.end() && now - logged->second < kLogProgressEvery))
      continue;
    place.logged_at[relay.name] = now;
    app::log_line(config::LogLevel::info, relay.name, app::Progress::line(relay.name, *catch_up),
                  {{"event", "progress"}, {"pending", std::to_string(catch_up->pending)}});
  }
}

// What a relay would have said, unless another process has it by now. A file on a full disk may not
// even open, and does not say why.
void Watcher::Desk::tell_full_disks(StoreView& view, const config::Config& config) const {
  for (const config::RelayConfig* relay : config.readers()) {
    const auto found = full_disks.find(relay->name);
    if (found == full_disks.end()) continue;
    const bool is_of_store = relay->from == view.store->name || relay->to == view.store->name;
    if (view.failure && is_of_store) view.failure->text = found->second.last_error;
    if (!view.status) continue;
    for (assembly::RelayStatus& known : view.status->relays) {
      const bool is_ours = known.owner.starts_with(found->second.owner + "#");
      if (known.name == relay->name && (is_ours || known.lease_left <= Duration::zero()))
        known.said = found->second;
    }
  }
}

void Watcher::Desk::watch(Place& place) {
  std::unique_lock lock(mutex);
  while (!is_stopping) {
    const TimePoint begun = clock->now();
    place.asked_at = begun;
    place.asked_wall = clock->wall();
    lock.unlock();
    auto status = app::ask(*place.store);
    lock.lock();
    take(place, std::move(status));
    const Duration took = clock->now() - begun;
    changed.wait_for(lock, std::clamp(kRests * took, every, std::max(every, kRestMax)),
                     [this] { return is_stopping; });
  }
}

Watcher::Watcher(const config::Config& config, Clock& clock, Duration every)
    : config_(config), clock_(clock), desk_(std::make_shared<Desk>()) {
  desk_->clock = &clock;
  desk_->every = every;
}

Watcher::~Watcher() { stop(); }

void Watcher::start(const std::shared_ptr<const void>& keeper) {
  for (const config::StoreConfig& store : config_.stores) {
    if (store.is_broker()) continue;
    Desk::Place& place = desk_->places.emplace_back();
    place.store = &store;
    place.view.store = &store;
  }
  for (Desk::Place& place : desk_->places)
    run_errand([desk = desk_, keeper, &place] { desk->watch(place); });
}

void Watcher::stop() {
  const std::lock_guard lock(desk_->mutex);
  desk_->is_stopping = true;
  desk_->changed.notify_all();
}

app::Overview Watcher::latest() const {
  app::Overview overview;
  overview.config = &config_;
  overview.at = clock_.wall();
  const std::lock_guard lock(desk_->mutex);
  for (const config::StoreConfig& store : config_.stores) {
    StoreView& view = overview.stores.emplace_back();
    view.store = &store;
    const auto place = std::find_if(desk_->places.begin(), desk_->places.end(),
                                    [&](const auto& one) { return one.store == &store; });
    if (place == desk_->places.end()) continue;
    view = place->view;
    desk_->tell_full_disks(view, config_);
    const Duration waits = place->asked_at ? clock_.now() - *place->asked_at : Duration{0};
    if (waits < kHangs || view.failure) continue;
    view.status.reset();
    view.since = place->asked_wall;
    view.failure =
        app::Failure{Exit::unavailable, "store " + store.name + ": it has not answered for " +
                                            config::human_duration(waits) +
                                            "; check the server and the network"};
  }
  return overview;
}

bool Watcher::is_complete() const {
  const std::lock_guard lock(desk_->mutex);
  return std::all_of(desk_->places.begin(), desk_->places.end(), [this](const auto& place) {
    return place.is_known || (place.asked_at && clock_.now() - *place.asked_at >= kHangs);
  });
}

std::optional<TimePoint> Watcher::answered_at(std::string_view store) const {
  const std::lock_guard lock(desk_->mutex);
  for (const Desk::Place& place : desk_->places)
    if (place.store->name == store) return place.answered_at;
  return std::nullopt;
}

void Watcher::note_clock(std::string_view store, std::optional<std::string> wrong) {
  const std::lock_guard lock(desk_->mutex);
  for (Desk::Place& place : desk_->places)
    if (place.store->name == store) place.view.clock = wrong;
}

void Watcher::note_full_disk(std::string_view relay, std::optional<std::string> error) {
  const std::lock_guard lock(desk_->mutex);
  const auto found = desk_->full_disks.find(relay);
  if (!error) {
    if (found != desk_->full_disks.end()) desk_->full_disks.erase(found);
  } else if (found != desk_->full_disks.end()) {
    found->second.last_error = std::move(*error);
  } else {
    desk_->full_disks[std::string(relay)] = {.state = "backing_off",
                                             .since = clock_.wall(),
                                             .last_error = std::move(*error),
                                             .owner = process_label(),
                                             .is_current = true};
  }
}

}  // namespace dovetail::console
