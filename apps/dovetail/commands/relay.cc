#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "assembly/database.h"
#include "assembly/target.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "documents/orders.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct ActionOptions {
  std::string name;  // of a relay or a consumer
  std::string store;
  std::string reason;
  bool dry_run = false;
  std::string to;        // seek
  std::string new_name;  // rename
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

using Act = std::function<Result<ActionReport>(Database& home, const ActionRequest& request)>;

Answer act_on(const CommandContext& context, const ActionOptions& options, const char* action,
              const Act& act) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto home = home_for(*config, options.name, options.store);
  if (!home) return tl::unexpected(home.error());
  const auto done =
      act(*database_of(**home), {.reason = options.reason, .dry_run = options.dry_run});
  if (!done) return refuse_in(**home, done.error());
  return answer(context, options.name, action, *done);
}

void add_options(Command& command, const std::shared_ptr<ActionOptions>& options) {
  command.option("--reason", options->reason, "Why; recorded in the audit").required();
  command.option("--store", options->store, "Its database, if the config file does not have it");
  command.flag("--dry-run", options->dry_run, "Only show what would follow");
}

void add_hold(Command& sub, const char* name, const char* help, const char* footer, Hold wanted) {
  const auto options = std::make_shared<ActionOptions>();
  Command hold = sub.command(name, help, footer, [=](const CommandContext& context) {
    return act_on(context, *options, name, [&](Database& home, const ActionRequest& request) {
      return home.hold_relay(options->name, wanted, request);
    });
  });
  hold.option("name", options->name, "The relay or consumer").required();
  add_options(hold, options);
}

Answer relay_seek(const CommandContext& context, const ActionOptions& options) {
  const auto to = parse_seek(options.to);
  if (!to) return tl::unexpected(to.error());
  return act_on(context, options, "seek", [&](Database& home, const ActionRequest& request) {
    return home.seek_relay(options.name, *to, request);
  });
}

Answer relay_rename(const CommandContext& context, const ActionOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto checked = check_new_name(*config, options.name, options.new_name);
  if (!checked) return tl::unexpected(checked.error());
  return act_on(context, options, "rename", [&](Database& home, const ActionRequest& request) {
    return home.rename_relay(options.name, options.new_name, request);
  });
}

Answer relay_forget(const CommandContext& context, const ActionOptions& options) {
  return act_on(context, options, "forget", [&](Database& home, const ActionRequest& request) {
    return home.forget_relay(options.name, request);
  });
}

void add_seek(Command& sub) {
  const auto options = std::make_shared<ActionOptions>();
  Command seek = sub.command(
      "seek", "Let a relay continue elsewhere: send events again, or skip some",
      "A relay that runs is paused for that, finishes what is in flight, and continues from the "
      "new place.\n"
      "Try it with --dry-run first: it counts what would be sent again or skipped.",
      [options](const CommandContext& context) { return relay_seek(context, *options); });
  seek.option("name", options->name, "The relay or consumer").required();
  seek.option("--to", options->to,
              "beginning, now, the number of the next event, or a time (2026-01-31T09:05:00Z)")
      .required();
  add_options(seek, options);
}

void add_rename(Command& sub) {
  const auto options = std::make_shared<ActionOptions>();
  Command rename = sub.command(
      "rename", "Give a relay that does not run another name",
      "Its progress, counts and parked events get the new name. First stop every process that "
      "runs it, and\n"
      "change the name in the config file before you start them again.",
      [options](const CommandContext& context) { return relay_rename(context, *options); });
  rename.option("name", options->name, "The relay").required();
  rename.option("new-name", options->new_name, "Its new name").required();
  add_options(rename, options);
}

void add_forget(Command& sub) {
  const auto options = std::make_shared<ActionOptions>();
  Command forget = sub.command(
      "forget", "Remove a relay that is gone for good, so that it holds nothing back",
      "Its progress is deleted, and what was pending for it is never delivered by it. First stop "
      "every\n"
      "process that runs it. A relay with parked events is refused.",
      [options](const CommandContext& context) { return relay_forget(context, *options); });
  forget.option("name", options->name, "The relay or consumer").required();
  add_options(forget, options);
}

}  // namespace

void add_relay(Command& app) {
  const auto options = std::make_shared<RetargetOptions>();
  Command sub =
      app.command("relay", "Steer a relay or a consumer: pause, drain, move, rename or forget it",
                  "  dovetail relay pause orders-to-inventory --reason 'a new broker' --dry-run\n"
                  "  dovetail relay resume orders-to-inventory --reason 'it is there'\n"
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
  add_seek(sub);
  add_rename(sub);
  add_forget(sub);
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
