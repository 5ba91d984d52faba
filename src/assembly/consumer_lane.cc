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

bool has_inside(const config::ConsumerConfig& consumer) {
  return std::any_of(consumer.handlers.begin(), consumer.handlers.end(),
                     [](const auto& handler) { return !handler.is_external(); });
}

bool wants_topic(const config::ConsumerConfig& consumer, const Event& event) {
  const auto& topics = consumer.topics;
  return topics.empty() || std::find(topics.begin(), topics.end(), event.topic) != topics.end();
}

// A handler outside the transaction, with what it stands on.
struct ExternalHandler {
  std::unique_ptr<ClaimStore> claims;
  std::unique_ptr<Sink> calls;
  std::unique_ptr<ClaimedSink> sink;
};

constexpr std::size_t kProcesses = 4;  // of one handler at a time, in each lane

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

// All stages of one lane, in the order of their lifetimes.
class ConsumerSink final : public Sink {
 public:
  ConsumerSink(const config::Config& config, const config::ConsumerConfig& consumer,
               std::uint32_t lane, Clock& clock) {
    const config::StoreConfig& store = *config.find_store(consumer.relay.to);
    const std::unique_ptr<Database> database = database_of(store);
    std::vector<ChainedSink::Stage> stages;
    if (has_inside(consumer)) {
      auto inbox = database->make_inbox(consumer, lane);
      inbox_ = inbox ? std::move(*inbox) : refused_sink(inbox.error());
      stages.push_back(
          {inbox_.get(), [&consumer](const Event& event) { return wants_topic(consumer, event); }});
    }
    for (const config::HandlerConfig& handler : consumer.handlers) {
      if (!handler.is_external()) continue;
      ExternalHandler external{database->make_claims(inbox_name(consumer, handler), clock),
                               make_calls(config, handler, clock), nullptr};
      external.sink = std::make_unique<ClaimedSink>(*external.claims, *external.calls, clock,
                                                    claim_options(consumer, handler));
      stages.push_back({external.sink.get(), [&consumer, &handler](const Event& event) {
                          return wants_topic(consumer, event) &&
                                 wants_type(handler.types, event.type);
                        }});
      external_.push_back(std::move(external));
    }
    chain_.emplace(std::move(stages));
  }

  // The relay has stopped: the next process need not wait until our claims run out.
  ~ConsumerSink() override {
    for (const ExternalHandler& external : external_) (void)external.sink->close();
  }

  Status open() override { return chain_->open(); }
  Status submit(Events events) override { return chain_->submit(events); }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    return chain_->collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return chain_->keeps_order_on_failure(); }

 private:
  std::unique_ptr<Sink> inbox_;
  std::vector<ExternalHandler> external_;
  std::optional<ChainedSink> chain_;
};

// Handlers take their time, so each lane has a thread for them. The lanes of a PostgreSQL store
// share its keys. What is read as one is spread over threads behind the relay instead.
MakeSink make_sinks(const config::Config& config, const config::ConsumerConfig& consumer,
                    Clock& clock) {
  const config::StoreConfig& from = *config.find_store(consumer.relay.from);
  const bool is_shared = from.type().has_lanes;
  return [&config, &consumer, &clock, is_shared](std::uint32_t lane) -> std::unique_ptr<Sink> {
    const std::uint32_t first = is_shared ? lane : 0;
    const std::uint32_t workers = is_shared ? 1 : consumer.relay.lanes;
    std::vector<std::unique_ptr<Sink>> sinks;
    for (std::uint32_t worker = first; worker < first + workers; ++worker)
      sinks.push_back(std::make_unique<ConsumerSink>(config, consumer, worker, clock));
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
    // A program that is missing now may be put there later, but whoever starts us wants to know.
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
