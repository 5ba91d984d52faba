#include "console/alerts/alerts.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "assembly/wiring.h"
#include "config/units.h"
#include "console/alerts/alert_book.h"
#include "console/alerts/pusher.h"
#include "host/host.h"
#include "overview/status_json.h"
#include "process/log.h"

namespace dovetail::console {
namespace {

constexpr std::string_view kSubject = "alerts";
constexpr Duration kEvery = std::chrono::milliseconds(500);

void warn(const std::string& text) { app::log_line(config::LogLevel::warn, kSubject, text); }

std::string payload_of(const Alert& alert, const app::Overview& overview,
                       const std::vector<app::Problem>& problems) {
  const bool is_raised = alert.state == Alert::State::raised;
  const app::Json document{{"alert", is_raised ? "raised" : "cleared"},
                           {"time", config::iso_time(overview.at)},
                           {"daemon", process_label()},
                           {"problem", app::json_of(alert.problem)},
                           {"open", alert.open},
                           {"all_clear", alert.open == 0},
                           {"verdict", app::json_of(app::verdict_of(overview, problems))}};
  return document.dump(-1, ' ', false, app::Json::error_handler_t::replace);
}

}  // namespace

Status Alerts::start() {
  if (config_.alerts.to.empty()) return {};
  const config::StoreConfig& store = *config_.find_store(config_.alerts.to);
  if (!store.unusable.empty()) return fail(Errc::rejected, store.unusable);
  thread_ = std::jthread([this, &store](const std::stop_token& stop) {
    Pusher pusher(assembly::make_sink(store, clock_), clock_, warn);
    AlertBook book(config_.alerts.away_max);
    const app::ProblemLimits limits{.lag_max = config_.alerts.lag_max};
    while (!stop.stop_requested()) {
      if (watcher_.is_complete()) {
        const app::Overview overview = watcher_.latest();
        const auto problems = app::problems_of(overview, limits);
        for (const Alert& alert : book.news(problems, overview.at, clock_.now())) {
          const bool is_raised = alert.state == Alert::State::raised;
          pusher.add(is_raised ? "dovetail.alert.raised" : "dovetail.alert.cleared",
                     payload_of(alert, overview, problems));
        }
      }
      const TimePoint next = clock_.now() + kEvery;
      pusher.work(kEvery, stop);
      clock_.sleep(std::max(next - clock_.now(), Duration{0}), stop);
    }
  });
  return {};
}

void Alerts::stop() { thread_ = {}; }

}  // namespace dovetail::console
