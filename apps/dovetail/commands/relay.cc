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
      print(relay->name + " belongs to " + target + " from now on" +
            (before->empty() ? "" : ", and no longer to " + *before) + "\n");
    }
    return Exit::ok;
  }
  return refuse(Exit::rejected, "no relay or consumer is called \"" + printable(options.name, 60) +
                                    "\"; there are: " + known);
}

}  // namespace

void add_relay(Command& app) {
  const auto options = std::make_shared<RetargetOptions>();
  Command sub =
      app.command("relay", "Let a relay or a consumer go on with another target",
                  "  dovetail relay retarget orders-to-inventory --reason 'the broker has moved'");
  sub.requires_command();
  Command retarget = sub.command(
      "retarget", "Bind a relay to the target that the config file says now",
      "A relay is bound to the place that it fills, or to the broker that it reads, at its first "
      "start: two\n"
      "processes of one name with different targets would share its events between them. A start "
      "with\n"
      "another target is refused until this command says that it is meant. Stop every process "
      "that runs\n"
      "it before. Its progress stays: what was delivered to the old target does not go to the new "
      "one.",
      [options](const CommandContext& context) { return relay_retarget(context, *options); });
  retarget.option("name", options->name, "The relay or consumer").required();
  retarget.option("--reason", options->reason, "Why; it is kept in the audit").required();
}

}  // namespace dovetail::app
