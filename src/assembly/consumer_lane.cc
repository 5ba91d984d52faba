#include "assembly/consumer_lane.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "assembly/database.h"
#include "assembly/target.h"
#include "command/sink.h"
#include "config/consumer.h"
#include "core/event/type_filter.h"
#include "core/inbox/inbox.h"
#include "core/sinks/chained_sink.h"
#include "core/sinks/claimed_sink.h"
#include "host/parallel_sink.h"

namespace dovetail::assembly {
namespace {

using Kind = config::HandlerConfig::Kind;

bool is_external(const config::HandlerConfig& handler) { return handler.is_external(); }

bool wants_topic(const config::ConsumerConfig& consumer, const Event& event) {
  const auto& topics = consumer.topics;
  return topics.empty() || std::find(topics.begin(), topics.end(), event.topic) != topics.end();
}

constexpr std::size_t kProcesses = 4;  // of one handler at a time, per lane

std::unique_ptr<Sink> make_calls(const config::Config& config, const config::HandlerConfig& handler,
                                 Clock& clock) {
  if (handler.kind == Kind::http) return make_sink(*config.find_store(handler.store), clock);
  return std::make_unique<command::CommandSink>(
      command::Options{.command = handler.command,
                       .timeout = handler.timeout,
                       .processes_max = kProcesses,
                       .environment = handler.environment},
      clock);
}

ClaimedSinkOptions claim_options(const config::ConsumerConfig& consumer,
                                 const config::HandlerConfig& handler) {
  ClaimedSinkOptions options;
  options.lease = consumer.claim;
  options.attempts_max = deaths_max(consumer.relay.options.attempts_max);
  if (handler.kind == Kind::command) options.calls_max = kProcesses;
  return options;
}

// An external handler and the parts that it needs.
struct ExternalHandler {
  ExternalHandler(const config::Config& config, const config::ConsumerConfig& consumer,
                  const config::HandlerConfig& handler, Database& database, Clock& clock)
      : claims(database.make_claims(inbox_name(consumer, handler), clock)),
        calls(make_calls(config, handler, clock)),
        sink(*claims, *calls, clock, claim_options(consumer, handler)) {}

  std::unique_ptr<ClaimStore> claims;
  std::unique_ptr<Sink> calls;
  ClaimedSink sink;
};

std::shared_ptr<Sink> make_inside(const config::ConsumerConfig& consumer, Database& database,
                                  std::uint32_t lane) {
  auto inbox = database.make_inbox(consumer, lane);
  return inbox ? std::move(*inbox) : std::shared_ptr<Sink>(refused_sink(inbox.error()));
}

// All handlers of one lane.
std::shared_ptr<Sink> make_stages(const config::Config& config,
                                  const config::ConsumerConfig& consumer, std::uint32_t lane,
                                  Clock& clock) {
  const std::unique_ptr<Database> database = database_of(*config.find_store(consumer.relay.to));
  std::vector<ChainedSink::Stage> stages;
  const auto& handlers = consumer.handlers;
  if (!std::all_of(handlers.begin(), handlers.end(), is_external)) {
    std::shared_ptr<Sink> inside = make_inside(consumer, *database, lane);
    if (std::none_of(handlers.begin(), handlers.end(), is_external) && consumer.topics.empty())
      return inside;
    stages.push_back({std::move(inside),
                      [&consumer](const Event& event) { return wants_topic(consumer, event); }});
  }
  for (const config::HandlerConfig& handler : handlers) {
    if (!handler.is_external()) continue;
    const auto external =
        std::make_shared<ExternalHandler>(config, consumer, handler, *database, clock);
    stages.push_back({std::shared_ptr<Sink>(external, &external->sink),
                      [&consumer, &handler](const Event& event) {
                        return wants_topic(consumer, event) &&
                               wants_type(handler.types, event.type);
                      }});
  }
  return std::make_shared<ChainedSink>(std::move(stages));
}

// Handlers may be slow, so each lane has a thread for them. Lanes of a PostgreSQL store share its
// keys. Other sources have one lane, and threads behind the relay share the keys instead.
MakeSink make_sinks(const config::Config& config, const config::ConsumerConfig& consumer,
                    Clock& clock) {
  const config::StoreConfig& from = *config.find_store(consumer.relay.from);
  const bool is_shared = from.type().has_lanes;
  return [&config, &consumer, &clock, is_shared](std::uint32_t lane) -> std::unique_ptr<Sink> {
    const std::uint32_t first = is_shared ? lane : 0;
    const std::uint32_t workers = is_shared ? 1 : consumer.relay.lanes;
    std::vector<std::shared_ptr<Sink>> sinks;
    for (std::uint32_t worker = first; worker < first + workers; ++worker)
      sinks.push_back(make_stages(config, consumer, worker, clock));
    return std::make_unique<ParallelSink>(std::move(sinks), clock);
  };
}

std::string list_of(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + text;
  return list;
}

std::string place_of(const config::StoreConfig& store) {
  return store.name + " (" + store.shown + ")";
}

std::string describe(const config::Config& config, const config::HandlerConfig& handler) {
  std::string text = handler.name.empty() ? "" : handler.name + " = ";
  switch (handler.kind) {
    case Kind::sql:
      text += "function " + handler.function +
              (handler.batch ? "(dovetail.event[])" : "(dovetail.event)");
      break;
    case Kind::queue:
      text += "queue";
      break;
    case Kind::http:
      text += "requests to " + place_of(*config.find_store(handler.store));
      break;
    case Kind::command:
      text += "command " + handler.command.front();
      break;
  }
  return handler.types.empty() ? text : text + " for " + list_of(handler.types);
}

}  // namespace

std::string inbox_name(const config::ConsumerConfig& consumer,
                       const config::HandlerConfig& handler) {
  return handler.name.empty() ? consumer.relay.name : consumer.relay.name + "." + handler.name;
}

Result<std::unique_ptr<Lane>> make_consumer_lane(const config::Config& config,
                                                 const config::ConsumerConfig& consumer,
                                                 Clock& clock,
                                                 std::function<void(const RelayNotice&)> notify) {
  LanePlan plan{.from = *config.find_store(consumer.relay.from),
                .relay = consumer.relay,
                .target = target_of(config, consumer.relay),
                .source = consumer.source,
                .make_sink = make_sinks(config, consumer, clock),
                .notify = std::move(notify)};
  if (!consumer.relay.topic.empty()) {
    auto parsed = TopicTemplate::parse(consumer.relay.topic);
    if (!parsed) return fail(parsed.error());
    plan.topics = std::move(*parsed);
  }
  return make_lane(std::move(plan), home_of(consumer.relay, config), clock);
}

Status check_handlers(const config::Config& config, const config::ConsumerConfig& consumer,
                      Clock& clock) {
  for (const config::HandlerConfig& handler : consumer.handlers) {
    Status usable;
    // A missing program may be installed later, but check_handlers() should report it now.
    if (handler.kind == Kind::command) usable = command::check(handler.command);
    if (!usable) usable = fail(Errc::rejected, usable.error().text);
    if (handler.kind == Kind::http)
      usable = make_sink(*config.find_store(handler.store), clock)->open();
    if (!usable) return fail(usable.error().code, handler.where + ": " + usable.error().text);
  }
  const config::StoreConfig& store = *config.find_store(consumer.relay.to);
  return database_of(store)->check_handlers(consumer);
}

std::string describe(const config::Config& config, const config::ConsumerConfig& consumer) {
  const config::StoreConfig& from = *config.find_store(consumer.relay.from);
  const config::StoreConfig& to = *config.find_store(consumer.relay.to);
  std::string text = "reads ";
  if (from.is_broker()) {
    text += place_of(from);
  } else if (from.tables.contains(consumer.relay.name)) {
    text += "a table of " + place_of(from);
  } else {
    text += "the " + std::string(to_string(consumer.source)) + " of " + place_of(from);
  }
  if (!consumer.topics.empty()) text += ", only " + list_of(consumer.topics);
  std::string inside;
  std::string external;
  for (const config::HandlerConfig& handler : consumer.handlers) {
    std::string& list = handler.is_external() ? external : inside;
    list += (list.empty() ? "" : ", ") + describe(config, handler);
  }
  text += "; the inbox is in " + place_of(to);
  if (!inside.empty()) text += "; once, in its transaction: " + inside;
  if (!external.empty())
    text +=
        "; at least once, outside of it, so the receiver must know an event by its id: " + external;
  return text;
}

}  // namespace dovetail::assembly
