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

// The stage takes events of these topics only, besides what it refuses by itself.
void restrict_to(const std::vector<std::string>& topics, ChainedSink::Stage& stage) {
  stage.takes = [topics, takes = std::move(stage.takes)](const Event& event) {
    return std::find(topics.begin(), topics.end(), event.topic) != topics.end() &&
           (!takes || takes(event));
  };
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
std::vector<ChainedSink::Stage> make_stages(const config::Config& config,
                                            const config::ConsumerConfig& consumer,
                                            std::uint32_t lane, Clock& clock) {
  const std::unique_ptr<Database> database = database_of(*config.find_store(consumer.relay.to));
  std::vector<ChainedSink::Stage> stages;
  const auto& handlers = consumer.handlers;
  if (!std::all_of(handlers.begin(), handlers.end(), is_external))
    stages.push_back({make_inside(consumer, *database, lane)});
  for (const config::HandlerConfig& handler : handlers) {
    if (!handler.is_external()) continue;
    const auto external =
        std::make_shared<ExternalHandler>(config, consumer, handler, *database, clock);
    stages.push_back(
        {std::shared_ptr<Sink>(external, &external->sink),
         [&handler](const Event& event) { return wants_type(handler.types, event.type); }});
  }
  return stages;
}

// Handlers may be slow, so each lane has a thread for them. Lanes of a PostgreSQL store share its
// keys. Other sources have one lane, and threads behind the relay share the keys instead.
MakeSink make_sinks(MakeStages make_stages, std::vector<std::string> topics, bool has_lanes,
                    std::uint32_t workers, Clock& clock) {
  return [=, &clock](std::uint32_t lane) -> std::unique_ptr<Sink> {
    const std::uint32_t first = has_lanes ? lane : 0;
    const std::uint32_t count = has_lanes ? 1 : workers;
    std::vector<std::shared_ptr<Sink>> sinks;
    for (std::uint32_t worker = first; worker < first + count; ++worker) {
      std::vector<ChainedSink::Stage> stages = make_stages(worker);
      if (!topics.empty())
        for (ChainedSink::Stage& stage : stages) restrict_to(topics, stage);
      if (stages.size() == 1 && !stages[0].takes)
        sinks.push_back(std::move(stages[0].sink));
      else
        sinks.push_back(std::make_shared<ChainedSink>(std::move(stages)));
    }
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

std::string inbox_name(const std::string& consumer, const std::string& handler) {
  return handler.empty() ? consumer : consumer + "." + handler;
}

std::string inbox_name(const config::ConsumerConfig& consumer,
                       const config::HandlerConfig& handler) {
  return inbox_name(consumer.relay.name, handler.name);
}

Result<std::unique_ptr<Lane>> make_consumer_lane(ConsumerPlan plan, Clock& clock) {
  const config::RelayConfig& relay = plan.relay;
  const bool has_lanes = !plan.origin.make && plan.from.type().has_lanes;
  LanePlan lane{.from = plan.from,
                .relay = relay,
                .target = std::move(plan.target),
                .source = plan.source,
                .origin = std::move(plan.origin),
                .notify = std::move(plan.notify)};
  // Events of a mailbox have their topics, so others need not be read at all.
  if (plan.source == SourceKind::mailbox) lane.only_topics = std::exchange(plan.topics, {});
  lane.make_sink = make_sinks(std::move(plan.make_stages), std::move(plan.topics), has_lanes,
                              relay.lanes, clock);
  if (!relay.topic.empty()) {
    auto parsed = TopicTemplate::parse(relay.topic);
    if (!parsed) return fail(parsed.error());
    lane.topics = std::move(*parsed);
  }
  return make_lane(std::move(lane), plan.home, clock);
}

Result<std::unique_ptr<Lane>> make_consumer_lane(const config::Config& config,
                                                 const config::ConsumerConfig& consumer,
                                                 Clock& clock,
                                                 std::function<void(const RelayNotice&)> notify) {
  return make_consumer_lane(ConsumerPlan{.from = *config.find_store(consumer.relay.from),
                                         .home = home_of(consumer.relay, config),
                                         .relay = consumer.relay,
                                         .source = consumer.source,
                                         .target = target_of(config, consumer.relay),
                                         .topics = consumer.topics,
                                         .make_stages =
                                             [&config, &consumer, &clock](std::uint32_t worker) {
                                               return make_stages(config, consumer, worker, clock);
                                             },
                                         .notify = std::move(notify)},
                            clock);
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
