#include "config/consumer.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "config/brokers.h"
#include "config/relay.h"
#include "config/tables.h"
#include "config/units.h"

namespace dovetail::config {
namespace {

using Kind = HandlerConfig::Kind;

constexpr std::string_view kPartForm = "a name is made of letters, digits, '-' and '_'";
constexpr std::pair<std::string_view, Kind> kKinds[] = {
    {"sql", Kind::sql}, {"queue", Kind::queue}, {"http", Kind::http}, {"command", Kind::command}};

// For consumers and handlers: a dot joins the two names.
std::string check_name_part(std::string_view name) {
  const bool fits = is_plain_name(name) && name.find('.') == std::string_view::npos;
  return fits ? "" : std::string(kPartForm);
}

std::string kind_is(Kind kind) { return "kind = " + in_quotes(to_string(kind)); }

std::string check_environment(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name.find('=') != std::string::npos)
      return "holds names of variables, such as \"TMPDIR\"; their values are taken from the "
             "environment of dovetail";
  }
  return {};
}

// Keys of one kind of handler.
void only_for_kind(Setting& setting, const HandlerConfig& handler, Kind kind) {
  setting.only_for(kind_is(kind), [&handler, kind]() -> std::string {
    return handler.kind == kind ? "" : "this handler has " + kind_is(handler.kind);
  });
}

void check_required(Section& section, const HandlerConfig& handler) {
  constexpr std::pair<Kind, std::string_view> kRequired[] = {
      {Kind::sql, "function"}, {Kind::http, "store"}, {Kind::command, "command"}};
  for (const auto& [kind, key] : kRequired) {
    if (handler.kind == kind && section.has("kind") && !section.has(key))
      section.wrong_here("a handler with " + kind_is(kind) + " needs " + in_quotes(key));
  }
  if (section.has("command") && handler.command.empty())
    section.wrong("command", "must name a program; its arguments may follow");
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
    section.wrong("store", "the consumer receives its events at this endpoint; name another store");
  }
}

// A name with a slash is a file, relative to the configuration file; a name without one is searched
// in PATH.
void find_program(HandlerConfig& handler, const std::filesystem::path& folder) {
  if (handler.command.empty()) return;
  std::string& program = handler.command.front();
  if (program.find('/') == std::string::npos) return;
  program = std::filesystem::absolute(folder / program).lexically_normal().string();
}

void check_place(Section& section, const HandlerConfig& handler, const ConsumerConfig& consumer,
                 const Config& config) {
  if (handler.kind == Kind::http) check_http_store(section, handler, consumer, config);
  if (handler.kind == Kind::command && handler.timeout >= consumer.claim) {
    section.wrong("timeout", "must be less than the claim of the consumer (" +
                                 human_duration(consumer.claim) +
                                 "), or another process could start the same call meanwhile");
  }
  const StoreConfig* to = config.find_store(consumer.relay.to);
  const bool has_none = to != nullptr && !to->is_broker() && !to->type().has_functions;
  if (!handler.is_external() && has_none) {
    section.wrong(
        "kind",
        "the inbox is in the " + std::string(to->type().name) + " store " +
            in_quotes(consumer.relay.to) +
            ", where handlers must be of kind \"http\" or \"command\"; to handle events inside the "
            "transaction, a service uses dovetail/sqlite.h");
  }
}

HandlerConfig read_handler(Section& section, const ConsumerConfig& consumer, const Config& config) {
  HandlerConfig handler;
  handler.where = section.place("kind");
  Settings keys;
  declare_handler(handler, keys);
  section.read(keys);
  check_required(section, handler);
  check_place(section, handler, consumer, config);
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
                           "each records the handled events under its name"
                         : "two handlers have the name " + in_quotes(handler.name) +
                               "; each records the handled events under its name");
    }
    if (!consumer.handlers.empty() && consumer.handlers.front().name.empty())
      one.wrong_here("the previous handler has no \"name\"; each of several handlers needs one");
    if (!consumer.handlers.empty() && handler.name.empty())
      one.wrong_here("needs \"name\", like each of several handlers");
    consumer.handlers.push_back(std::move(handler));
  });
  if (consumer.handlers.empty()) {
    section.wrong_here("needs at least one [[consumer.handler]]");
  }
}

// The default for what is read.
void choose_source(Section& section, ConsumerConfig& consumer, const Config& config) {
  const StoreConfig* from = config.find_store(consumer.relay.from);
  if (from == nullptr || section.has("box")) return;
  if (from->is_broker()) consumer.source = SourceKind::broker;
  if (from->type().has_mailbox && consumer.relay.from == consumer.relay.to)
    consumer.source = SourceKind::mailbox;
}

void check_consumer(Section& section, const RelayConfig& relay, const Config& config) {
  check_relay_options(section, relay.options);
  check_store_name(section, "from", relay.from, config);
  check_store_name(section, "to", relay.to, config);
  check_reader_name(section, relay.name, config);
  check_log_options(section, relay, "parallel", config);
  const StoreConfig* to = config.find_store(relay.to);
  if (to != nullptr && to->is_broker()) {
    section.wrong("to", "the store " + in_quotes(relay.to) +
                            " is a broker, but the inbox of a consumer needs a database; name a "
                            "PostgreSQL or SQLite store, or use a [[relay]] to fill a broker");
  }
}

// Settings that depend on all handlers.
void read_outside(Section& section, ConsumerConfig& consumer) {
  if (std::none_of(consumer.handlers.begin(), consumer.handlers.end(),
                   [](const auto& one) { return one.is_external(); })) {
    return;
  }
  RelayOptions& options = consumer.relay.options;
  // Each call has its own time limit, so one for the whole batch would only repeat calls. And calls
  // must finish soon after SIGTERM.
  if (!section.has("confirm_timeout")) options.confirm_timeout = std::chrono::hours(24);
  if (!section.has("batch_events")) options.batch_events_max = 64;
  if (!consumer.version_guard) return;
  section.wrong(
      "version_guard",
      "is only for handlers inside the transaction, but one of these is outside; give that one its "
      "own consumer");
}

ConsumerConfig read_consumer(Section& section, Config& config) {
  ConsumerConfig consumer;
  RelayConfig& relay = consumer.relay;
  Settings keys;
  declare_consumer(consumer, [&] { return config.find_store(relay.from); }, keys);
  section.read(keys);
  std::optional<TableConfig> table = read_mapped_table(section);
  check_start_and_filter(section, table.has_value());
  choose_source(section, consumer, config);
  check_consumer(section, relay, config);
  read_broker_source(section, relay, config);
  read_handlers(section, consumer, config);
  read_outside(section, consumer);
  add_mapped_table(std::move(table), relay, config);
  return consumer;
}

}  // namespace

void declare_consumer(ConsumerConfig& consumer, const FindStore& from, Settings& keys) {
  RelayConfig& relay = consumer.relay;
  keys.text("name", relay.name,
            "Letters, digits, `-` and `_`. Also the name of its progress, its lease and its inbox "
            "rows: do not change it.")
      .required()
      .check([&relay] { return check_name_part(relay.name); });
  keys.text("from", relay.from,
            "A store. The consumer reads its outbox, or a broker, whose `group` is the consumer's "
            "name unless you write one.")
      .required();
  keys.text("to", relay.to,
            "The database that has the inbox, PostgreSQL or SQLite. It may be the same as `from`.")
      .required();
  keys.choice<SourceKind>("box", consumer.source,
                          {{"outbox", SourceKind::outbox}, {"mailbox", SourceKind::mailbox}},
                          "Which of the two is read.")
      .otherwise("`outbox`; `mailbox` where `from` is the same store as `to`")
      .only_for(kinds_with(&StoreType::has_mailbox), [&consumer, from]() -> std::string {
        const StoreConfig* const store = from();
        const bool has_outbox = store != nullptr && !store->is_broker();
        if (has_outbox && consumer.source == SourceKind::outbox) return {};
        return why_lacks(store, &StoreType::has_mailbox);
      });
  Setting& table =
      keys.table("table", "`[consumer.table]`: a table that exists already, as `[relay.table]`.");
  only_for_stores(table, &StoreType::has_mapped_tables, from);
  keys.texts("topics", consumer.topics,
             "The only topics that are handled. Events of other topics pass without a trace.")
      .otherwise("all");
  keys.number("parallel", relay.lanes, 1, 256,
              "The number of connections that share the work along keys. From PostgreSQL they are "
              "lanes: several processes share them, and the number at the first start stays in "
              "force. From SQLite or a broker they are threads of one process, and other processes "
              "stand by.");
  keys.flag("version_guard", consumer.version_guard,
            "Drops an event whose `aggregate_version` is not above the last one applied for its "
            "aggregate. For handlers inside the transaction.");
  keys.duration("claim", consumer.claim, std::chrono::seconds(1),
                "How long an event is held for a handler outside the transaction before another "
                "process may take it. Make it longer than a call takes.");
  keys.tables("handler", "`[[consumer.handler]]`: what is done with an event, one or more.");
  declare_start(relay, from, keys);
  declare_wal_options(relay, from, keys);
  declare_relay_options(relay, keys);
  keys.at("batch_events").also("64 with a handler outside the transaction.");
  keys.at("confirm_timeout").also("A day with a handler outside the transaction.");
}

void declare_handler(HandlerConfig& handler, Settings& keys) {
  keys.choice<Kind>("kind", handler.kind, {std::begin(kKinds), std::end(kKinds)},
                    "`sql` (a function) and `queue` (a row that a service takes) run in the "
                    "transaction of the inbox, so the effect happens once. `http` (a request) and "
                    "`command` (a program) run outside it, so at least once: after a crash an "
                    "event may come again, with the same id. With the inbox in SQLite only `http` "
                    "and `command` are possible.")
      .required()
      .see("INBOX.md");
  keys.text("name", handler.name,
            "Letters, digits, `-` and `_`. Each of several handlers needs one. Its inbox rows are "
            "under `CONSUMER.NAME`. A handler that is added later sees the events that come from "
            "then on.")
      .check([&handler] { return check_name_part(handler.name); });
  keys.one_or_more_texts("types", handler.types,
                         "The only types that it handles: `\"order.placed\"`, `\"order.*\"`, or a "
                         "list.")
      .otherwise("all")
      .check([&handler] { return check_patterns(handler.types); });
  only_for_kind(keys.text("function", handler.function,
                          "`shop.book`, a function that takes one `dovetail.event`. Write the name "
                          "as PostgreSQL stores it, without quotes. Required."),
                handler, Kind::sql);
  only_for_kind(keys.flag("batch", handler.batch,
                          "The function takes `dovetail.event[]`, a whole batch at once."),
                handler, Kind::sql);
  only_for_kind(keys.text("store", handler.store,
                          "A store with an http or https url. A status of 2xx means done. "
                          "Required."),
                handler, Kind::http);
  only_for_kind(keys.texts("command", handler.command,
                           "The program and its arguments. A program with a slash is relative to "
                           "the config file. Any other is looked up along `PATH`. Required."),
                handler, Kind::command);
  Setting& timeout = keys.duration("timeout", handler.timeout, std::chrono::milliseconds(100),
                                   "A program that runs longer is killed. Must be less than "
                                   "`claim`.");
  timeout.only_for(kind_is(Kind::command), [&handler]() -> std::string {
    if (handler.kind == Kind::command) return {};
    std::string why = "this handler has " + kind_is(handler.kind);
    if (handler.kind == Kind::http) why += ", whose store has request_timeout in its settings";
    return why;
  });
  only_for_kind(
      keys.texts(
              "environment", handler.environment,
              "Names of variables, such as `[\"TMPDIR\", \"MAIL_TOKEN\"]`. The program gets them "
              "with the values that Dovetail has. It also gets `PATH`, `HOME`, `LANG`, `TZ` and "
              "the variables about the event. It gets no other variable, so none of Dovetail's "
              "passwords.")
          .check([&handler] { return check_environment(handler.environment); }),
      handler, Kind::command);
}

void read_consumers(Section& root, Config& config) {
  root.repeated_table("consumer", [&](Section& section) {
    config.consumers.push_back(read_consumer(section, config));
  });
}

std::string_view to_string(HandlerConfig::Kind kind) {
  for (const auto& [name, meaning] : kKinds)
    if (meaning == kind) return name;
  return "unknown";
}

}  // namespace dovetail::config
