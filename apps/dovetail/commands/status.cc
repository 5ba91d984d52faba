#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "commands/status_text.h"
#include "config/units.h"
#include "overview/progress.h"
#include "overview/status_json.h"
#include "process/screen.h"

namespace dovetail::app {
namespace {

struct StatusOptions {
  bool watch = false;
  double every_seconds = 1.0;
};

// The worst of all stores.
Exit exit_of(const Overview& overview) {
  Exit exit = Exit::ok;
  for (const StoreView& view : overview.stores) {
    if (view.failure) exit = std::max(exit, view.failure->exit);
    if (!view.status) continue;
    for (const assembly::RelayStatus& relay : view.status->relays)
      if (!relay.error.empty()) exit = std::max(exit, Exit::rejected);
  }
  return exit;
}

void remember(Progress& progress, const Overview& overview) {
  for (const StoreView& view : overview.stores) {
    if (!view.status) continue;
    for (const assembly::RelayStatus& relay : view.status->relays) {
      if (knows_pending(relay)) progress.add(relay.name, relay.pending, overview.at);
    }
  }
}

Answer status(const CommandContext& context, const StatusOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  Progress progress;
  std::optional<Screen> screen;
  if (options.watch && !context.json && stdout_is_terminal()) screen.emplace();
  while (true) {
    const Overview now = look(*config);
    const std::vector<Problem> problems = problems_of(now, {.lag_max = config->alerts.lag_max});
    remember(progress, now);
    if (context.json) {
      print_json(status_json(now, problems));
    } else {
      const std::string text =
          status_text(now, problems, {terminal_width(), wants_colour(), progress.lines()});
      if (screen)
        screen->draw(config::iso_time(now.at).substr(0, 19) + "Z, q ends\n\n" + text);
      else
        print(text);
    }
    if (!options.watch) return exit_of(now);
    const auto pause = std::chrono::duration<double>(options.every_seconds);
    if (screen) {
      if (screen->wait(std::chrono::duration_cast<Duration>(pause))) return Exit::ok;
      continue;
    }
    std::this_thread::sleep_for(pause);
    if (!context.json) print("\n");
  }
}

}  // namespace

void add_status(Command& app) {
  const auto options = std::make_shared<StatusOptions>();
  Command sub = app.command(
      "status", "Show pending and parked events, their age, and the processes that work on them",
      "  dovetail status\n"
      "  dovetail status --watch              again every second, with the rate\n"
      "  dovetail status --json | jq '.stores[].relays[] | {name, pending, parked}'",
      [options](const CommandContext& context) { return status(context, *options); });
  sub.flag("--watch,-w", options->watch, "Repeat until interrupted");
  sub.option("--every", options->every_seconds, "Seconds between two updates of --watch")
      .shows_default()
      .real_range(0.05, 3600.0);
}

}  // namespace dovetail::app
