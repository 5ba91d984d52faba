#include <nlohmann/json.hpp>
#include <string>

#include "assembly/database.h"
#include "assembly/target.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct HoldOptions {
  std::string name;  // of a relay or a consumer
  std::string store;
  std::string reason;
  bool dry_run = false;
};

struct RetargetOptions {
  std::string name;  // of a relay or a consumer
  std::string reason;
};

Answer relay_retarget(const CommandContext& context, const RetargetOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  std::string known;
  for (const config::RelayConfig* relay : config->readers()) {
    known += (known.empty() ? "" : ", ") + relay->name;
    if (relay->name != options.name) continue;
    const config::StoreConfig& home = home_of(*relay, *config);
    if (const auto checked = check_secrets(home); !checked) return tl::unexpected(checked.error());
    const std::string target = target_of(*config, *relay);
    const auto before = database_of(home)->retarget(relay->name, target, options.reason);
    if (!before) return refuse_in(home, before.error());
    if (context.json) {
      print_json({{"relay", relay->name}, {"before", *before}, {"target", target}});
    } else {
      print(relay->name + " now belongs to " + target +
            (before->empty() ? "" : ", no longer to " + *before) + "\n");
    }
    return Exit::ok;
  }
  return refuse(Exit::rejected, "the config has no relay or consumer \"" +
                                    printable(options.name, 60) + "\"; it has: " + known);
}

// The database that keeps the relay: by the config file, or else the one that is named.
Expected<const config::StoreConfig*> home_for(const config::Config& config, const std::string& name,
                                              const std::string& store) {
  if (!store.empty()) return choose_store(config, store);
  std::string known;
  for (const config::RelayConfig* relay : config.readers()) {
    known += (known.empty() ? "" : ", ") + relay->name;
    if (relay->name != name) continue;
    const config::StoreConfig& home = home_of(*relay, config);
    if (const auto checked = check_secrets(home); !checked) return tl::unexpected(checked.error());
    return &home;
  }
  return refuse(Exit::rejected, "the config has no relay or consumer \"" + printable(name, 60) +
                                    "\"; it has: " + known +
                                    "; for one that is no longer there, name its --store");
}

Json json_of(const std::string& relay, const char* action, const ActionReport& report) {
  Json consequences = Json::array();
  for (const Consequence& one : report.consequences)
    consequences.push_back({{"kind", one.kind}, {"text", one.text}});
  return {{"relay", relay},
          {"action", action},
          {"dry_run", !report.is_done},
          {"consequences", consequences},
          {"pending", report.pending},
          {"parked", report.parked},
          {"waiting", report.waiting},
          {"sent_again", report.sent_again},
          {"skipped", report.skipped}};
}

Answer answer(const CommandContext& context, const std::string& relay, const char* action,
              const ActionReport& report) {
  if (context.json) {
    print_json(json_of(relay, action, report));
    return Exit::ok;
  }
  if (!report.is_done) print("Nothing is changed; without --dry-run:\n");
  for (const Consequence& one : report.consequences) print("- " + printable(one.text, 1000) + "\n");
  return Exit::ok;
}

Answer relay_hold(const CommandContext& context, const HoldOptions& options, const char* action,
                  Hold wanted) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto home = home_for(*config, options.name, options.store);
  if (!home) return tl::unexpected(home.error());
  const auto done = database_of(**home)->hold_relay(
      options.name, wanted, {.reason = options.reason, .dry_run = options.dry_run});
  if (!done) return refuse_in(**home, done.error());
  return answer(context, options.name, action, *done);
}

void add_hold(Command& sub, const char* name, const char* help, const char* footer, Hold wanted) {
  const auto options = std::make_shared<HoldOptions>();
  Command hold = sub.command(name, help, footer, [=](const CommandContext& context) {
    return relay_hold(context, *options, name, wanted);
  });
  hold.option("name", options->name, "The relay or consumer").required();
  hold.option("--reason", options->reason, "Why; recorded in the audit").required();
  hold.option("--store", options->store, "Its database, if the config file does not have it");
  hold.flag("--dry-run", options->dry_run, "Only show what would follow");
}

}  // namespace

void add_relay(Command& app) {
  const auto options = std::make_shared<RetargetOptions>();
  Command sub = app.command(
      "relay", "Pause, resume or drain a relay or a consumer, or bind it to another target",
      "  dovetail relay pause orders-to-bus --reason 'the broker moves' --dry-run\n"
      "  dovetail relay resume orders-to-bus --reason 'the broker has moved'\n"
      "  dovetail relay retarget orders-to-inventory --reason 'the broker has moved'");
  sub.requires_command();
  add_hold(sub, "pause", "Let a relay deliver nothing until it is resumed",
           "Within seconds every process of the relay finishes what is in flight and releases its "
           "lease. The state\n"
           "is in the database: it binds every process, also after a restart.",
           Hold::paused);
  add_hold(sub, "drain", "Let a relay finish what it has begun, and then deliver nothing",
           "The relay reads nothing new. It delivers what is in flight and what waits for its next "
           "try; then its\n"
           "state is `drained`. Parked events stay: they need a decision.",
           Hold::draining);
  add_hold(sub, "resume", "Let a paused or drained relay continue", "", Hold::none);
  Command retarget = sub.command(
      "retarget", "Bind a relay to the target that the config file names now",
      "At its first start a relay is bound to its target: the place that it fills, or the broker "
      "that it\n"
      "reads. Otherwise two processes with one name and different targets would split its events. "
      "A start\n"
      "with another target is refused until you run this command. First stop every process that "
      "runs the\n"
      "relay. Its progress stays: events that were delivered to the old target do not go to the "
      "new one.",
      [options](const CommandContext& context) { return relay_retarget(context, *options); });
  retarget.option("name", options->name, "The relay or consumer").required();
  retarget.option("--reason", options->reason, "Why; recorded in the audit").required();
}

}  // namespace dovetail::app
