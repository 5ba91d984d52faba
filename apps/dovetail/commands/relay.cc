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

}  // namespace

void add_relay(Command& app) {
  const auto options = std::make_shared<RetargetOptions>();
  Command sub =
      app.command("relay", "Bind a relay or a consumer to another target",
                  "  dovetail relay retarget orders-to-inventory --reason 'the broker has moved'");
  sub.requires_command();
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
