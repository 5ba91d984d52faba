#include "console/console.h"

#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#ifdef DOVETAIL_HAS_HTTP
#include "console/api/api.h"
#include "console/health.h"
#include "console/history/sampling.h"
#include "console/listener.h"
#include "console/pages/pages.h"
#include "console/watch/watch_routes.h"
#include "process/log.h"
#endif
#include "host/host.h"

namespace dovetail::console {

namespace {

// Where nobody asks, the log still tells the progress of a long catch-up.
Duration look_every(const config::Config& config) {
  const bool is_asked = config.http || !config.alerts.to.empty();
  return is_asked ? std::chrono::seconds(1) : std::chrono::seconds(15);
}

}  // namespace

#ifdef DOVETAIL_HAS_HTTP

namespace {

using app::log_line;
using config::LogLevel;

constexpr std::string_view kSubject = "http";
constexpr Duration kTryAgain = std::chrono::seconds(5);
constexpr Duration kWriteRefusals = std::chrono::milliseconds(500);
constexpr int kRefusedAtOnce = 20;  // lines, then one for each second

// A client that is refused again and again does not fill the log.
class RefusalLog {
 public:
  void add(const Refused& refused) {
    const TimePoint now = system_clock().now();
    if (now - since_ > std::chrono::seconds(1)) {
      left_ = std::min(left_ + static_cast<int>((now - since_) / std::chrono::seconds(1)),
                       kRefusedAtOnce);
      since_ = now;
    }
    if (left_ == 0) return;
    --left_;
    log_line(LogLevel::warn, kSubject, "refused",
             {{"why", refused.code},
              {"who", refused.who},
              {"method", refused.method},
              {"path", refused.path},
              {"peer", refused.peer}});
  }

 private:
  TimePoint since_{};
  int left_ = kRefusedAtOnce;
};

// `keeper` holds the config.
ListenerOptions listener_options(const config::Config& config,
                                 const std::shared_ptr<const void>& keeper,
                                 const std::shared_ptr<Refusals>& refusals) {
  ListenerOptions options;
  options.http = *config.http;
  // One that runs, and one that comes after it and sees what was added meanwhile.
  const auto writer = std::make_shared<Workers>(1, 1);
  options.warn = [](const std::string& text) { log_line(LogLevel::warn, kSubject, text); };
  options.refused = [&config, keeper, refusals, writer,
                     log = std::make_shared<RefusalLog>()](const Refused& refused) {
    log->add(refused);
    if (refused.code != "role") return;
    refusals->add(
        {system_clock().wall(), refused.who, refused.method + " " + refused.path, refused.peer});
    (void)writer->hand([&config, keeper, refusals] {
      system_clock().sleep(kWriteRefusals, {});  // many come at once, and are one line
      refusals->write(config);
    });
  };
  return options;
}

Status listen(Listener& listener, const config::HttpConfig& http) {
  DOVETAIL_TRY(listener.start());
  log_line(LogLevel::info, kSubject, "listening",
           {{"address", http.endpoint.address}, {"port", std::to_string(listener.port())}});
  return {};
}

// Everything that the console answers. A handler on a worker keeps the desk.
std::vector<Route> routes_of(const std::shared_ptr<Desk>& desk, const Watcher& watcher) {
  std::vector<Route> all = health_routes();
  for (auto&& some :
       {page_routes(), watch_routes(desk->config, desk->roster, watcher), api_routes(desk)})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace

struct Console::Parts {
  std::mutex mutex{};
  bool is_stopped = false;
  std::unique_ptr<Listener> listener{};
  std::jthread trying{};    // to listen, while another process has the port
  std::jthread sampling{};  // for the history
};

Console::Console(const config::Config& config, const Roster& roster)
    : config_(config),
      roster_(roster),
      watcher_(config, system_clock(), look_every(config)),
      parts_(std::make_unique<Parts>()) {}

Status Console::start(const std::shared_ptr<const void>& keeper) {
  const std::lock_guard lock(parts_->mutex);
  if (parts_->is_stopped) return {};
  watcher_.start(keeper);
  alerts_ = std::make_unique<Alerts>(config_, watcher_, system_clock());
  DOVETAIL_TRY(alerts_->start());
  if (!config_.http) return {};
  SystemClock& clock = system_clock();
  const auto history = std::make_shared<History>();
  const auto refusals = std::make_shared<Refusals>();
  parts_->sampling = std::jthread([this, history](const std::stop_token& stop) {
    sample_again_and_again(roster_, watcher_, system_clock(), *history, stop);
  });
  const auto desk = std::make_shared<Desk>(
      Desk{config_, roster_, clock, keeper, history, refusals, clock.wall()});
  parts_->listener = std::make_unique<Listener>(listener_options(config_, keeper, refusals),
                                                routes_of(desk, watcher_), clock);
  const Status listening = listen(*parts_->listener, *config_.http);
  if (listening || listening.error().code == Errc::rejected) return listening;
  log_line(LogLevel::warn, kSubject, listening.error().text + "; trying again");
  parts_->trying = std::jthread([this](const std::stop_token& stop) {
    Status tried = fail(Errc::unavailable, "");
    while (!tried && !stop.stop_requested()) {
      system_clock().sleep(kTryAgain, stop);
      tried = listen(*parts_->listener, *config_.http);
    }
  });
  return {};
}

void Console::stop() {
  const std::lock_guard lock(parts_->mutex);
  parts_->is_stopped = true;
  parts_->trying = {};  // asks it to stop, and joins
  parts_->sampling = {};
  parts_->listener.reset();
  if (alerts_) alerts_->stop();
  watcher_.stop();
}

#else

struct Console::Parts {};

Console::Console(const config::Config& config, const Roster& roster)
    : config_(config), roster_(roster), watcher_(config, system_clock(), look_every(config)) {}

Status Console::start(const std::shared_ptr<const void>& keeper) {
  if (!config_.http && config_.alerts.to.empty()) {
    watcher_.start(keeper);
    return {};
  }
  return fail(Errc::rejected,
              "this dovetail was built without HTTP; remove [http] and [alerts] from the config "
              "file, or build it with DOVETAIL_HTTP=ON");
}

void Console::stop() { watcher_.stop(); }

#endif

Console::~Console() { stop(); }

}  // namespace dovetail::console
