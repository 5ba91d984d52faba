#include "config/consumer.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "config/brokers.h"
#include "config/relay.h"
#include "config/units.h"

namespace dovetail::config {
namespace {

using Kind = HandlerConfig::Kind;

constexpr std::string_view kPartForm = "a name is made of letters, digits, '-' and '_'";

// Of a consumer and of a handler: a dot stands between the two.
bool is_name_part(std::string_view name) {
  return is_plain_name(name) && name.find('.') == std::string_view::npos;
}

void check_kind_keys(Section& section, const HandlerConfig& handler) {
  struct Rule {
    std::string_view key;
    Kind kind;
    bool required;
  };
  constexpr Rule kRules[] = {
      {"function", Kind::sql, true},     {"batch", Kind::sql, false},
      {"store", Kind::http, true},       {"command", Kind::command, true},
      {"timeout", Kind::command, false}, {"environment", Kind::command, false}};
  for (const Rule& rule : kRules) {
    const bool is_its_own = rule.kind == handler.kind;
    if (is_its_own && rule.required && !section.has(rule.key)) {
      section.wrong_here("a handler of kind " + in_quotes(to_string(handler.kind)) + " needs " +
                         in_quotes(rule.key));
    }
    if (is_its_own || !section.has(rule.key)) continue;
    std::string what = "is for handlers of kind " + in_quotes(to_string(rule.kind)) +
                       ", and this is one of kind " + in_quotes(to_string(handler.kind)) +
                       "; remove it";
    if (rule.key == "timeout" && handler.kind == Kind::http)
      what += ": the store has request_timeout among its settings";
    section.wrong(rule.key, what);
  }
}

void check_http_store(Section& section, const HandlerConfig& handler,
                      const ConsumerConfig& consumer, const Config& config) {
  check_store_name(section, "store", handler.store, config);
  const StoreConfig* store = config.find_store(handler.store);
  if (store == nullptr) return;
  if (store->scheme != StoreScheme::http) {
    section.wrong("store", "the store " + in_quotes(handler.store) + " is " +
                               std::string(to_string(store->scheme)) +
                               "; a handler of kind \"http\" needs one with an http or https url");
  } else if (handler.store == consumer.relay.from) {
    section.wrong("store", "the consumer takes its events at this endpoint; name another store");
  }
}

// What has a slash names a file, like every path relative to the configuration file; what has none
// is looked for along the PATH.
void find_program(HandlerConfig& handler, const std::filesystem::path& folder) {
  if (handler.command.empty()) return;
  std::string& program = handler.command.front();
  if (program.find('/') == std::string::npos) return;
  program = std::filesystem::absolute(folder / program).lexically_normal().string();
}

void check_environment(Section& section, const HandlerConfig& handler) {
  for (const std::string& name : handler.environment) {
    if (name.find('=') == std::string::npos) continue;
    section.wrong("environment",
                  "holds names of variables, such as \"TMPDIR\"; what they are "
                  "set to is taken from the environment of dovetail");
  }
}

HandlerConfig read_handler(Section& section, const ConsumerConfig& consumer, const Config& config) {
  using namespace std::chrono_literals;
  HandlerConfig handler;
  handler.where = section.place("kind");
  section.text("name", handler.name);
  section.require("kind");
  section.choice<Kind>("kind", handler.kind,
                       {{"sql", Kind::sql},
                        {"queue", Kind::queue},
                        {"http", Kind::http},
                        {"command", Kind::command}});
  section.texts("types", handler.types, true);
  section.text("function", handler.function);
  std::optional<bool> batch;
  section.flag("batch", batch);
  handler.batch = batch.value_or(false);
  section.text("store", handler.store);
  section.texts("command", handler.command);
  section.duration("timeout", handler.timeout, 100ms);
  section.texts("environment", handler.environment);
  section.close();

  check_environment(section, handler);
  if (!handler.name.empty() && !is_name_part(handler.name)) section.wrong("name", kPartForm);
  if (section.has("kind")) check_kind_keys(section, handler);
  for (const std::string& type : handler.types) {
    if (type.find('*') >= type.size() - 1) continue;
    section.wrong("types", in_quotes(type) +
                               " has a '*' that is not at its end; write types such as "
                               "\"order.placed\", or \"order.*\" for all that begin so");
  }
  if (section.has("command") && handler.command.empty())
    section.wrong("command", "must name a program, and may go on with its arguments");
  if (handler.kind == Kind::http) check_http_store(section, handler, consumer, config);
  if (handler.kind == Kind::command && handler.timeout >= consumer.claim) {
    section.wrong("timeout", "must be less than the claim of the consumer (" +
                                 human_duration(consumer.claim) +
                                 "), or another could start the same call meanwhile");
  }
  const StoreConfig* to = config.find_store(consumer.relay.to);
  const bool has_none = to != nullptr && !to->is_broker() && !to->type().has_functions;
  if (!handler.is_external() && has_none) {
    section.wrong("kind", "the inbox is in the " + std::string(to->type().name) + " store " +
                              in_quotes(consumer.relay.to) +
                              ", where handlers are of kind \"http\" or \"command\"; inside its "
                              "transaction a service handles events with dovetail/sqlite.h");
  }
  find_program(handler, config.file.parent_path());
  return handler;
}

void read_handlers(Section& section, ConsumerConfig& consumer, const Config& config) {
  section.repeated_table("handler", [&](Section& one) {
    HandlerConfig handler = read_handler(one, consumer, config);
    for (const HandlerConfig& other : consumer.handlers) {
      if (other.name != handler.name) continue;
      one.wrong_here(handler.name.empty()
                         ? "a consumer with several handlers needs a \"name\" for each, because "
                           "each remembers by it what it has handled"
                         : "two handlers are called " + in_quotes(handler.name) +
                               "; each remembers by its name what it has handled");
    }
    if (!consumer.handlers.empty() && consumer.handlers.front().name.empty())
      one.wrong_here("the handler before it has no \"name\", which every one of several needs");
    if (!consumer.handlers.empty() && handler.name.empty())
      one.wrong_here("needs \"name\", as every one of several handlers does");
    consumer.handlers.push_back(std::move(handler));
  });
  if (consumer.handlers.empty()) {
    section.wrong_here("needs at least one [[consumer.handler]]");
  }
}

// What is read, and what goes with that only.
void read_stream(Section& section, ConsumerConfig& consumer, const Config& config) {
  std::optional<SourceKind> box;
  SourceKind chosen = SourceKind::outbox;
  section.choice<SourceKind>("box", chosen,
                             {{"outbox", SourceKind::outbox}, {"mailbox", SourceKind::mailbox}});
  if (section.has("box")) box = chosen;
  const StoreConfig* from = config.find_store(consumer.relay.from);
  if (from == nullptr) return;
  const std::string the_store = "the store " + in_quotes(from->name);
  if (from->is_broker()) {
    if (box) section.wrong("box", the_store + " is a broker, which has none; remove it");
    consumer.source = SourceKind::broker;
    return;
  }
  if (from->type().has_mailbox) {
    const bool is_own = consumer.relay.from == consumer.relay.to;
    consumer.source = box.value_or(is_own ? SourceKind::mailbox : SourceKind::outbox);
    return;
  }
  if (box == SourceKind::mailbox)
    section.wrong("box", the_store + " is " + std::string(from->type().name) +
                             ", which has an outbox only; remove it");
}

void check_consumer(Section& section, ConsumerConfig& consumer, Config& config) {
  const RelayConfig& relay = consumer.relay;
  if (!relay.name.empty() && !is_name_part(relay.name)) section.wrong("name", kPartForm);
  check_store_name(section, "from", relay.from, config);
  check_store_name(section, "to", relay.to, config);
  check_reader_name(section, relay.name, config);
  check_table(section, relay, config);
  check_log_options(section, relay, "parallel", config);
  const StoreConfig* to = config.find_store(relay.to);
  if (to != nullptr && to->is_broker()) {
    section.wrong("to", "the store " + in_quotes(relay.to) +
                            " is a broker, and the inbox of a consumer is in a database; name a "
                            "PostgreSQL or a SQLite store, or write a [[relay]] to fill a broker");
  }
  if (const auto topic = TopicTemplate::parse(relay.topic); !topic && !relay.topic.empty()) {
    section.wrong("topic", topic.error().text);
  }
}

// What depends on all handlers.
void read_outside(Section& section, ConsumerConfig& consumer) {
  if (std::none_of(consumer.handlers.begin(), consumer.handlers.end(),
                   [](const auto& one) { return one.is_external(); })) {
    return;
  }
  RelayOptions& options = consumer.relay.options;
  // Calls are made one by one and each has its own time limit, so that of a batch would only repeat
  // them; and what was handed over must be through soon after SIGTERM.
  if (!section.has("confirm_timeout")) options.confirm_timeout = std::chrono::hours(24);
  if (!section.has("batch_events")) options.batch_events_max = 64;
  if (!consumer.version_guard) return;
  section.wrong("version_guard",
                "is for handlers inside the transaction, and one of these is not; give that one a "
                "consumer of its own");
}

ConsumerConfig read_consumer(Section& section, Config& config) {
  using namespace std::chrono_literals;
  ConsumerConfig consumer;
  RelayConfig& relay = consumer.relay;
  relay.options.batch_events_max = 500;
  section.require("name");
  section.require("from");
  section.require("to");
  section.text("name", relay.name);
  section.text("from", relay.from);
  section.text("to", relay.to);
  section.text("topic", relay.topic);
  section.texts("topics", consumer.topics);
  section.number("parallel", relay.lanes, 1, 256);
  std::optional<bool> guard;
  section.flag("version_guard", guard);
  consumer.version_guard = guard.value_or(false);
  section.duration("claim", consumer.claim, 1s);
  std::optional<TableConfig> table = read_mapped_table(section);
  read_stream(section, consumer, config);
  read_log_options(section, relay);
  read_relay_options(section, relay);
  section.has("handler");
  section.close();
  check_consumer(section, consumer, config);
  read_broker_source(section, relay, config);
  read_handlers(section, consumer, config);
  read_outside(section, consumer);
  add_mapped_table(std::move(table), relay, config);
  return consumer;
}

}  // namespace

void read_consumers(Section& root, Config& config) {
  root.repeated_table("consumer", [&](Section& section) {
    config.consumers.push_back(read_consumer(section, config));
  });
}

std::string_view to_string(HandlerConfig::Kind kind) {
  switch (kind) {
    case Kind::sql:
      return "sql";
    case Kind::queue:
      return "queue";
    case Kind::http:
      return "http";
    case Kind::command:
      return "command";
  }
  return "unknown";
}

}  // namespace dovetail::config
