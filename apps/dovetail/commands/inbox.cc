// Decisions of an operator about an inbox.
#include <nlohmann/json.hpp>
#include <string>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"
#include "core/event/time_text.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct ForgetOptions {
  std::string consumer;  // or one of its handlers: "stock.ledger"
  std::string id;
  std::string reason;
};

struct RememberOptions {
  std::string store;
  std::string since;  // RFC 3339
  std::string reason;
};

// The event and the consumer that the options name.
struct Named {
  EventId id{};
  const config::ConsumerConfig* consumer = nullptr;
};

Expected<Named> named_in(const config::Config& config, const ForgetOptions& options) {
  const auto id = EventId::parse(options.id);
  if (!id) return refuse(id.error());
  const config::ConsumerConfig* const consumer = config.find_consumer(options.consumer);
  if (consumer == nullptr)
    return refuse(Exit::rejected, "the config has no consumer \"" + options.consumer +
                                      "\"; check the name in the config file");
  return Named{*id, consumer};
}

Answer inbox_apply(const CommandContext& context, const ForgetOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto named = named_in(*config, options);
  if (!named) return tl::unexpected(named.error());
  const auto& [id, consumer] = *named;
  const config::StoreConfig& to = *config->find_store(consumer->relay.to);
  for (const config::StoreConfig* store : {&to, &home_of(consumer->relay, *config)}) {
    if (const auto checked = check_secrets(*store); !checked)
      return tl::unexpected(checked.error());
  }
  const auto allowed = database_of(to)->apply_event(options.consumer, id, options.reason);
  if (!allowed) return refuse_in(to, allowed.error());
  if (*allowed == 0)
    return refuse(Exit::rejected, "\"" + options.consumer + "\" has applied " + options.id +
                                      "; to apply it again use 'dovetail inbox forget'");
  // If it is not parked, it is applied when it comes.
  const config::StoreConfig& home = home_of(consumer->relay, *config);
  const auto replayed = database_of(home)->replay(consumer->relay.name, id, options.reason);
  if (!replayed && replayed.error().code != Errc::rejected)
    return refuse_in(home, replayed.error());
  if (context.json) {
    print_json({{"allowed", *allowed}, {"replayed", replayed.has_value()}});
  } else {
    print("it is applied in spite of its age, " +
          (replayed ? "and is replayed now" : "when it comes: " + replayed.error().text) + "\n");
  }
  return Exit::ok;
}

Answer inbox_remember(const CommandContext& context, const RememberOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto since = parse_time(options.since);
  if (!since) return refuse(Exit::usage, "--since is not a time; write it as 2026-01-31T09:05:00Z");
  const auto store = choose_store(*config, options.store);
  if (!store) return tl::unexpected(store.error());
  const auto before = database_of(**store)->remember_since(*since, options.reason);
  if (!before) return refuse_in(**store, before.error());
  if (context.json) {
    print_json({{"since", config::iso_time(*since)}, {"before", config::iso_time(*before)}});
  } else {
    print("remembered since " + config::iso_time(*since) + " instead of " +
          config::iso_time(*before) +
          "; replay events that were parked meanwhile with 'dovetail parked replay'\n");
  }
  return Exit::ok;
}

Answer inbox_forget(const CommandContext& context, const ForgetOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto named = named_in(*config, options);
  if (!named) return tl::unexpected(named.error());
  const auto& [id, consumer] = *named;
  const config::StoreConfig& to = *config->find_store(consumer->relay.to);
  const config::StoreConfig& from = *config->find_store(consumer->relay.from);
  for (const config::StoreConfig* store : {&to, &from}) {
    if (const auto checked = check_secrets(*store); !checked)
      return tl::unexpected(checked.error());
  }
  const auto forgotten = database_of(to)->forget_event(options.consumer, id, options.reason);
  if (!forgotten) return refuse_in(to, forgotten.error());
  // Even if nothing was forgotten: an earlier call may have died between the two steps.
  const auto comes_again =
      database_of(from)->deliver_again(consumer->relay.name, id, options.reason);
  if (!comes_again) return refuse_in(from, comes_again.error());
  if (*forgotten == 0 && !*comes_again)
    return refuse(Exit::rejected, "\"" + options.consumer + "\" has not applied " + options.id +
                                      "; check the id with 'dovetail events show'");
  if (context.json) {
    print_json({{"forgotten", *forgotten}, {"comes_again", *comes_again}});
  } else {
    print("forgotten: " + std::to_string(*forgotten) + " of its handlers had applied it; " +
          (*comes_again ? "it is delivered again from " + from.name
                        : "it is applied when " + from.name + " delivers it again") +
          "\n");
  }
  return Exit::ok;
}

}  // namespace

void add_inbox(Command& app) {
  const auto options = std::make_shared<ForgetOptions>();
  Command sub = app.command(
      "inbox", "Decide about events if the inbox cannot: apply, forget, remember",
      "  dovetail inbox apply stock 0190... --reason 'it has no booking'\n"
      "  dovetail inbox forget stock 0190... --reason 'the shelf was counted wrongly'\n"
      "  dovetail inbox remember --store inventory --since 2026-01-31T09:05:00Z --reason "
      "'a wrong clock'");
  sub.requires_command();
  Command forget = sub.command(
      "forget", "Forget that a consumer has applied an event, and deliver it again",
      "Its effect happens a second time, on purpose. From a PostgreSQL outbox the event is "
      "delivered again by\n"
      "itself; from any other source it is applied when it is delivered again. Later events of "
      "its key are not\n"
      "undone first.",
      [options](const CommandContext& context) { return inbox_forget(context, *options); });
  forget.option("consumer", options->consumer, "The consumer, or one handler: stock.ledger")
      .required();
  forget.option("id", options->id, "The event").required();
  forget.option("--reason", options->reason, "Why; recorded in the audit").required();

  Command apply = sub.command(
      "apply", "Apply an event that is older than what the inbox remembers, and replay it",
      "For an event that is parked because it is unknown whether it was applied. First check that "
      "its effect\n"
      "is missing: if the event was applied and forgotten, the effect now happens twice.",
      [options](const CommandContext& context) { return inbox_apply(context, *options); });
  apply.option("consumer", options->consumer, "The consumer, or one handler: stock.ledger")
      .required();
  apply.option("id", options->id, "The event").required();
  apply.option("--reason", options->reason, "What you have checked; recorded in the audit")
      .required();

  const auto remembered = std::make_shared<RememberOptions>();
  Command remember = sub.command(
      "remember", "Repair an inbox that forgot too much because of a wrong clock",
      "If the clock was ahead while old rows were deleted, the inbox treats new events as "
      "forgotten.\n"
      "--since is the correct time of that deletion. Older events stay parked; newer ones are "
      "applied.\n"
      "First check that no newer event was applied before the deletion: if it comes again, it is "
      "applied twice.",
      [remembered](const CommandContext& context) { return inbox_remember(context, *remembered); });
  remember.option("--store", remembered->store, "Name of the store in the config file");
  remember.option("--since", remembered->since, "A time such as 2026-01-31T09:05:00Z").required();
  remember.option("--reason", remembered->reason, "What you have checked; recorded in the audit")
      .required();
}

}  // namespace dovetail::app
