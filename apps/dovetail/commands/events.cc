#include "documents/events.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "commands/parked.h"
#include "config/units.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct EventsOptions {
  std::string store;
  std::string relay;
  std::string box = "outbox";  // or "mailbox"
  std::string state;           // of EventState; empty: all but delayed
  std::string key;
  std::string type;
  std::int64_t after = 0;  // position
  std::uint64_t limit = 50;
  std::string id;             // event to show or to cancel
  bool with_payload = false;  // show
  std::string reason;         // cancel
};

void print_delayed(const std::vector<EventRow>& rows) {
  Table table({"ID", "DUE", "TYPE", "KEY", ">BYTES", "WHY IT WAS NOT PUBLISHED"});
  for (const EventRow& row : rows) {
    table.add({row.id.to_string(), config::iso_time(row.deliver_at.value_or(WallTime{})),
               printable(row.type, 30), printable(row.aggregate_type + "/" + row.aggregate_id, 40),
               config::human_count(row.payload_bytes), printable(row.delayed_because, 200)});
  }
  print(rows.empty() ? "no events\n" : table.to_string());
}

void print_more(const std::vector<EventRow>& rows, std::size_t limit) {
  if (rows.size() < limit) return;
  print("for more use --after " + std::to_string(rows.back().position) + "\n");
}

Answer events_list(const CommandContext& context, const EventsOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto store = choose_store(*config, options.store);
  if (!store) return tl::unexpected(store.error());
  EventFilter filter;
  filter.source = options.box == "mailbox" ? SourceKind::mailbox : SourceKind::outbox;
  filter.relay = options.relay;
  filter.key = options.key;
  filter.type = options.type;
  filter.after = options.after;
  filter.limit = options.limit;
  if (!options.state.empty()) {
    const auto state = parse_event_state(options.state);
    if (!state) return refuse(state.error());
    filter.state = *state;
  }
  const config::StoreType& type = (*store)->type();
  if (filter.source == SourceKind::mailbox && !type.has_mailbox && !type.is_broker) {
    return refuse(Exit::rejected, "store " + (*store)->name + " is " + std::string(type.name) +
                                      ", which has no mailbox; leave out --box");
  }
  const auto rows = database_of(**store)->list_events(filter);
  if (!rows) return refuse_in(**store, rows.error());

  if (context.json) {
    Json list = Json::array();
    for (const auto& row : *rows) list.push_back(json_of(**store, filter.source, row));
    print_json({{"events", list}});
    return Exit::ok;
  }
  if (filter.state == EventState::delayed) {
    print_delayed(*rows);
    print_more(*rows, options.limit);
    return Exit::ok;
  }
  Table table({">POSITION", "ID", "STATE", "RELAY", "TYPE", "KEY", ">BYTES", ">CREATED"});
  const WallTime now = wall_now();
  for (const auto& row : *rows) {
    table.add({std::to_string(row.position), row.id.to_string(), state_of(row),
               printable(row.relay, 30), printable(row.type, 30),
               printable(row.aggregate_type + "/" + row.aggregate_id, 40),
               config::human_count(row.payload_bytes), ago(row.created_at, now)});
  }
  print(rows->empty() ? "no events\n" : table.to_string());
  print_more(*rows, options.limit);
  return Exit::ok;
}

std::string delayed_lines(const EventRow& row) {
  if (!row.deliver_at) return {};
  std::string text = "\ndue        " + config::iso_time(*row.deliver_at);
  if (!row.delayed_because.empty())
    text +=
        ", the next attempt; it could not be published: " + printable(row.delayed_because, 1000);
  return text;
}

struct Trace {
  Json rows = Json::array();
  Json parked = Json::array();
  Json audit = Json::array();
  Table table{{"STORE", "BOX", ">POSITION", "STATE", "RELAY", "TOPIC", ">CREATED"}};
  std::string problems;  // problems, printed first
  std::string lives;     // its state in parking
  std::string decisions;
  std::string head;
  const config::StoreConfig* holder = nullptr;  // a store that still has the payload
};

std::string when(WallTime time) {
  return config::iso_time(time) + " (" + ago(time, wall_now()) + ")";
}

std::string when_due(WallTime time) {
  const WallTime now = wall_now();
  if (time <= now) return "now";
  return config::iso_time(time) + " (in " + config::human_duration(time - now) + ")";
}

std::string head_of(const EventRow& row) {
  return "event      " + row.id.to_string() + "\ntype       " + printable(row.type) +
         "\nkey        " + printable(row.aggregate_type + "/" + row.aggregate_id) +
         "\npublished  " + when(row.created_at) + "\npayload    " +
         config::human_count(row.payload_bytes) + " bytes of " + printable(row.content_type) +
         "\nheaders    " + (row.headers.empty() ? "none" : printable(row.headers, 2000)) +
         delayed_lines(row) + "\n\n";
}

// An event from a broker, or one whose row is gone, has only its parked row.
std::string head_of(const ParkedRow& row) {
  return "event      " + row.id.to_string() + "\ntype       " + printable(row.type) +
         "\nkey        " + printable(row.aggregate_type + "/" + row.aggregate_id) +
         "\npayload    " + config::human_count(row.payload_bytes) + " bytes\n\n";
}

std::string parked_state(const ParkedRow& row) {
  switch (row.state) {
    case EventState::parked:
      return row.head ? "parked, needs replay or discard"
                      : "parked, behind another event of its key";
    case EventState::waiting:
      return row.head ? "waits for its next attempt" : "waits behind another event of its key";
    case EventState::pending:
    case EventState::delivered:
    case EventState::skipped:
    case EventState::discarded:
    case EventState::delayed:
      break;
  }
  return std::string(to_string(row.state));
}

// "orders-to-bus in store orders", then one line per known fact.
std::string life_of(const config::StoreConfig& store, const ParkedRow& row) {
  std::string text = "\n" + printable(row.relay, 60) + " in store " + store.name + "\n";
  const auto line = [&text](std::string_view name, const std::string& value) {
    const std::string first = "  " + std::string(name) + std::string(12 - name.size(), ' ');
    text += wrapped(value, terminal_width(), std::string(first.size(), ' '), first);
  };
  line("state", parked_state(row));
  line("parked", when(row.parked_at));
  line("attempts", std::to_string(row.attempts));
  if (!row.reason.empty()) line("last error", printable(row.reason, kWhole));
  if (row.state == EventState::waiting) line("next try", when_due(row.retry_at));
  if (row.finished_at > WallTime{}) line("finished", when(row.finished_at));
  if (!row.note.empty()) line("note", printable(row.note, kWhole));
  return text;
}

Status trace_parked(const config::StoreConfig& store, const EventId& id, Trace& trace) {
  ParkedFilter filter;
  filter.id = id.to_string();
  filter.with_finished = true;
  const auto rows = database_of(store)->list_parked(filter);
  if (!rows) return fail(rows.error());
  for (const ParkedRow& row : *rows) {
    trace.parked.push_back(json_of(ParkedPlace{&store, row}));
    trace.lives += life_of(store, row);
    if (row.state == EventState::parked)
      trace.problems += wrapped(
          printable(row.relay, 60) + " parked it after " + std::to_string(row.attempts) +
              (row.attempts == 1 ? " attempt: " : " attempts: ") + printable(row.reason, kWhole),
          terminal_width(), "  ", "! ");
    if (trace.holder != nullptr) continue;
    trace.holder = &store;
    trace.head = head_of(row);
  }
  const auto audit = database_of(store)->list_audit({.subject = id.to_string()});
  if (!audit) return fail(audit.error());
  for (const AuditRow& row : *audit) {
    trace.audit.push_back(json_of(store, row));
    trace.decisions += "  " + config::iso_time(row.at) + "  " + printable(row.who, 60) + ": " +
                       printable(row.what, 60) +
                       (row.relay.empty() ? "" : " for " + printable(row.relay, 60)) +
                       (row.reason.empty() ? "" : ": " + printable(row.reason, kWhole)) + "\n";
  }
  return {};
}

Status trace_in(const config::StoreConfig& store, const EventId& id, Trace& trace) {
  for (const auto source : {SourceKind::outbox, SourceKind::mailbox, SourceKind::broker}) {
    if (source != SourceKind::outbox && !store.type().has_mailbox) continue;
    EventFilter filter;
    filter.source = source;
    filter.id = id.to_string();
    const auto rows = database_of(store)->list_events(filter);
    if (!rows) return fail(rows.error());
    for (const auto& row : *rows) {
      trace.rows.push_back(json_of(store, source, row));
      trace.table.add({store.name, std::string(to_string(source)), std::to_string(row.position),
                       state_of(row), printable(row.relay, 40), printable(row.topic, 40),
                       ago(row.created_at, wall_now())});
      if (trace.holder != nullptr) continue;
      trace.holder = &store;
      trace.head = head_of(row);
    }
  }
  return trace_parked(store, id, trace);
}

Answer events_show(const CommandContext& context, const EventsOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto id = EventId::parse(options.id);
  if (!id) return refuse(id.error());
  Trace trace;
  for (const config::StoreConfig& store : config->stores) {
    if (!options.store.empty() && store.name != options.store) continue;
    if (store.is_broker() && options.store.empty()) continue;
    if (const auto checked = check_secrets(store); !checked) return tl::unexpected(checked.error());
    if (const auto traced = trace_in(store, *id, trace); !traced) {
      return refuse_in(store, traced.error());
    }
  }
  if (!options.store.empty()) {
    if (const auto known = choose_store(*config, options.store); !known) {
      return tl::unexpected(known.error());
    }
  }
  if (trace.holder == nullptr) {
    return refuse(Exit::negative,
                  "no store has the event " + id->to_string() +
                      "; it may have been pruned, or its transaction never committed");
  }
  std::string payload;
  if (options.with_payload) {
    auto found = database_of(*trace.holder)->payload_of(*id);
    if (!found) return refuse_in(*trace.holder, found.error());
    if (!*found)
      return refuse(Exit::negative, "the store " + trace.holder->name +
                                        " no longer has the payload of " + id->to_string() +
                                        "; it may have been pruned");
    payload = std::move(**found);
  }
  if (context.json) {
    Json document{{"id", id->to_string()},
                  {"places", trace.rows},
                  {"parked", trace.parked},
                  {"audit", trace.audit}};
    if (options.with_payload) {
      add_payload(document, payload);
    }
    print_json(document);
  } else {
    std::string text = trace.problems.empty() ? "" : trace.problems + "\n";
    text += trace.head;
    if (trace.table.rows() != 0) text += trace.table.to_string();
    text += trace.lives;
    if (!trace.decisions.empty()) text += "\nactions of operators\n" + trace.decisions;
    print(text);
    if (options.with_payload) print("\n" + payload + "\n");
  }
  return Exit::ok;
}

Answer events_cancel(const CommandContext& context, const EventsOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto id = EventId::parse(options.id);
  if (!id) return refuse(id.error());
  const auto store = choose_store(*config, options.store);
  if (!store) return tl::unexpected(store.error());
  if (!(*store)->type().has_delayed_events) {
    return refuse(Exit::rejected, "store " + (*store)->name + " is " +
                                      std::string(config::to_string((*store)->scheme)) +
                                      ", which cannot delay events; check --store");
  }
  if (const Status done = database_of(**store)->cancel(*id, options.reason); !done) {
    return refuse_in(**store, done.error());
  }
  if (context.json) {
    print_json({{"id", id->to_string()}, {"store", (*store)->name}, {"cancelled", true}});
  } else {
    print("cancelled " + id->to_string() + "\n");
  }
  return Exit::ok;
}

}  // namespace

void add_events(Command& app) {
  const auto options = std::make_shared<EventsOptions>();
  Command sub =
      app.command("events", "List events and their state; 'events show ID' follows one event",
                  "  dovetail events --store orders\n"
                  "  dovetail events --store orders --state pending\n"
                  "  dovetail events --store orders --state delayed\n"
                  "  dovetail events --store inventory --box mailbox\n"
                  "  dovetail events show 01932b7e-0000-7000-8000-000000000001");
  sub.option("--store", options->store, "Name of the store in the config file");
  sub.option("--relay", options->relay, "State as seen by this relay or consumer");
  sub.option("--box", options->box, "outbox or mailbox")
      .shows_default()
      .one_of({"outbox", "mailbox"});
  sub.option("--state", options->state, "Only events in this state")
      .one_of({"pending", "delivered", "skipped", "waiting", "parked", "discarded", "delayed"});
  sub.option("--key", options->key, "Only events of this key");
  sub.option("--type", options->type, "Only events of this type");
  sub.option("--after", options->after, "Only events after this position, for paging");
  sub.option("--limit", options->limit, "Maximum number of events, oldest first")
      .shows_default()
      .range(1, 100000);
  Command show = sub.command(
      "show", "Follow one event through every store of the config file", "",
      [options](const CommandContext& context) { return events_show(context, *options); });
  show.option("id", options->id, "The event's id").required();
  show.flag("--payload", options->with_payload, "Also print its payload");
  Command cancel = sub.command(
      "cancel", "Delete a delayed event (publish --deliver-at)",
      "  dovetail events cancel 01932b7e-0000-7000-8000-000000000001 --reason 'order was "
      "cancelled'",
      [options](const CommandContext& context) { return events_cancel(context, *options); });
  cancel.option("id", options->id, "The event's id").required();
  cancel.option("--reason", options->reason, "Why; recorded in the audit").required();
  sub.otherwise(
      [options](const CommandContext& context) { return events_list(context, *options); });
}

}  // namespace dovetail::app
