#include <nlohmann/json.hpp>
#include <string>

#include "assembly/database.h"
#include "assembly/target.h"
#include "commands/commands.h"
#include "commands/output.h"

namespace dovetail::app {

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

}  // namespace dovetail::app
