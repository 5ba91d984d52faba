// dovetail inbox forget: an event that was applied is applied once more.
#include <nlohmann/json.hpp>
#include <string>

#include "assembly/database.h"
#include "commands/commands.h"
#include "commands/output.h"

namespace dovetail::app {

Answer inbox_forget(const CommandContext& context, const ForgetOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto id = EventId::parse(options.id);
  if (!id) return refuse(id.error());
  const config::ConsumerConfig* const consumer = config->find_consumer(options.consumer);
  if (consumer == nullptr)
    return refuse(Exit::rejected, "there is no consumer \"" + options.consumer +
                                      "\"; check the name in the config file");
  const config::StoreConfig& to = *config->find_store(consumer->relay.to);
  const config::StoreConfig& from = *config->find_store(consumer->relay.from);
  for (const config::StoreConfig* store : {&to, &from}) {
    if (const auto checked = check_secrets(*store); !checked)
      return tl::unexpected(checked.error());
  }
  const auto forgotten = database_of(to)->forget_event(options.consumer, *id, options.reason);
  if (!forgotten) return refuse_in(to, forgotten.error());
  // Also when nothing was forgotten: an earlier call may have ended between the two.
  const auto comes_again =
      database_of(from)->deliver_again(consumer->relay.name, *id, options.reason);
  if (!comes_again) return refuse_in(from, comes_again.error());
  if (*forgotten == 0 && !*comes_again)
    return refuse(Exit::rejected, "\"" + options.consumer + "\" has not applied " + options.id +
                                      "; check the id with 'dovetail events show'");
  if (context.json) {
    print_json({{"forgotten", *forgotten}, {"comes_again", *comes_again}});
  } else {
    print("forgotten: " + std::to_string(*forgotten) + " of its handlers had applied it; " +
          (*comes_again ? "it comes again from " + from.name
                        : "it is applied when " + from.name + " delivers it again") +
          "\n");
  }
  return Exit::ok;
}

}  // namespace dovetail::app
