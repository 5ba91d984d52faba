// dovetail inbox forget: an event that was applied is applied once more.
#include <nlohmann/json.hpp>
#include <string>

#include "assembly/stores.h"
#include "commands/commands.h"
#include "commands/output.h"
#ifdef DOVETAIL_HAS_POSTGRES
#include "postgres/operate/admin.h"
#endif

namespace dovetail::app {

#ifdef DOVETAIL_HAS_POSTGRES

namespace {

bool is_outbox_of_postgres(const config::StoreConfig& store, const std::string& reader) {
  return store.scheme == config::StoreScheme::postgres && !store.tables.contains(reader);
}

}  // namespace

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
  if (to.scheme != config::StoreScheme::postgres)
    return refuse(Exit::rejected, "the inbox of \"" + options.consumer +
                                      "\" is in a SQLite file; only PostgreSQL keeps the reason "
                                      "that this needs");
  const config::StoreConfig& from = *config->find_store(consumer->relay.from);
  for (const config::StoreConfig* store : {&to, &from}) {
    if (const auto checked = check_secrets(*store); !checked)
      return tl::unexpected(checked.error());
  }
  const auto forgotten = postgres::forget_event(to.conninfo, options.consumer, *id, options.reason);
  if (!forgotten) return refuse_in(to, forgotten.error());
  // Also when nothing was forgotten: an earlier call may have ended between the two.
  bool comes_again = false;
  if (is_outbox_of_postgres(from, consumer->relay.name)) {
    const auto delivered =
        postgres::deliver_again(from.conninfo, consumer->relay.name, *id, options.reason);
    if (!delivered) return refuse_in(from, delivered.error());
    comes_again = *delivered;
  }
  if (*forgotten == 0 && !comes_again)
    return refuse(Exit::rejected, "\"" + options.consumer + "\" has not applied " + options.id +
                                      "; check the id with 'dovetail events show'");
  if (context.json) {
    print_json({{"forgotten", *forgotten}, {"comes_again", comes_again}});
  } else {
    print("forgotten: " + std::to_string(*forgotten) + " of its handlers had applied it; " +
          (comes_again ? "it comes again from " + from.name
                       : "it is applied when " + from.name + " delivers it again") +
          "\n");
  }
  return Exit::ok;
}

#else

Answer inbox_forget(const CommandContext&, const ForgetOptions&) {
  return refuse(Exit::rejected,
                "this dovetail was built without PostgreSQL; build it with DOVETAIL_POSTGRES=ON");
}

#endif

}  // namespace dovetail::app
