// dovetail inbox apply, dovetail inbox remember: what an operator has checked counts.
#include <nlohmann/json.hpp>
#include <string>

#include "assembly/database.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"
#include "core/event/time_text.h"

namespace dovetail::app {
Answer inbox_apply(const CommandContext& context, const ForgetOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto id = EventId::parse(options.id);
  if (!id) return refuse(id.error());
  const config::ConsumerConfig* const consumer = config->find_consumer(options.consumer);
  if (consumer == nullptr)
    return refuse(Exit::rejected, "there is no consumer \"" + options.consumer +
                                      "\"; check the name in the config file");
  const config::StoreConfig& to = *config->find_store(consumer->relay.to);
  for (const config::StoreConfig* store : {&to, &home_of(consumer->relay, *config)}) {
    if (const auto checked = check_secrets(*store); !checked)
      return tl::unexpected(checked.error());
  }
  const auto allowed = database_of(to)->apply_event(options.consumer, *id, options.reason);
  if (!allowed) return refuse_in(to, allowed.error());
  if (*allowed == 0)
    return refuse(Exit::rejected, "\"" + options.consumer + "\" has applied " + options.id +
                                      "; to apply it once more there is 'dovetail inbox forget'");
  // Where it is not parked it is applied when it comes.
  const config::StoreConfig& home = home_of(consumer->relay, *config);
  const auto replayed = database_of(home)->replay(consumer->relay.name, *id);
  if (!replayed && replayed.error().code != Errc::rejected)
    return refuse_in(home, replayed.error());
  if (context.json) {
    print_json({{"allowed", *allowed}, {"replayed", replayed.has_value()}});
  } else {
    print("it is applied, whatever its age, " +
          (replayed ? "and is replayed now" : "when it comes: " + replayed.error().text) + "\n");
  }
  return Exit::ok;
}

Answer inbox_remember(const CommandContext& context, const RememberOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto since = parse_time(options.since);
  if (!since) return refuse(Exit::usage, "--since is no time; write it as 2026-01-31T09:05:00Z");
  const auto store = choose_store(*config, options.store);
  if (!store) return tl::unexpected(store.error());
  const auto before = database_of(**store)->remember_since(*since, options.reason);
  if (!before) return refuse_in(**store, before.error());
  if (context.json) {
    print_json({{"since", config::iso_time(*since)}, {"before", config::iso_time(*before)}});
  } else {
    print("remembered since " + config::iso_time(*since) + " instead of " +
          config::iso_time(*before) +
          "; replay what was parked meanwhile with 'dovetail parked replay'\n");
  }
  return Exit::ok;
}

}  // namespace dovetail::app
