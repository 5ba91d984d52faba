// dovetail: one binary for the relay daemon and for the operator.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"
#include "host/errand.h"

namespace dovetail::app {
namespace {

constexpr const char* kIntroduction =
    "Dovetail carries the events of one service's database to another, so that none is lost and "
    "none is\n"
    "applied twice.";

constexpr const char* kFooter =
    "\nA first session:\n"
    "  dovetail init                            write dovetail.toml, create the tables\n"
    "  dovetail publish --store orders --aggregate-type orders --key 17 --type OrderPlaced \\\n"
    "                   --payload '{\"total\": 3}'\n"
    "  dovetail run --until-idle                carry what is there, then stop\n"
    "  dovetail status                          what is pending, parked, how old\n"
    "  dovetail demo                            the whole story, with processes being killed\n"
    "\nExit codes:\n"
    "  0 ok            1 the answer is no, or a promise is broken   2 wrong usage\n"
    "  3 wrong config  4 unavailable: locked, full, unreachable; try again\n"
    "  5 rejected input                     6 corrupt store, or one of a newer version\n"
    "\nThe config file is ./dovetail.toml, or what $DOVETAIL_CONFIG or --config names.\n"
    "'dovetail COMMAND --help' explains each command.";

// Collects what the command line says; `chosen` is the command to run.
struct CommandLine {
  CommandContext context;
  InitOptions init;
  RunOptions run;
  PublishOptions publish;
  StatusOptions status;
  EventsOptions events;
  ParkedOptions parked;
  RequestsOptions requests;
  ForgetOptions forget;
  RememberOptions remember;
  SlotsOptions slots;
  RetargetOptions retarget;
  PruneOptions prune;
  DemoOptions demo;
  std::string doctor_store;
  std::string event_id;
  bool show_payload = false;
  std::string cancel_reason;
  std::string config = "dovetail.toml";
  double watch_seconds = 1.0;
  std::function<Answer()> chosen;
};

CLI::App* command(CLI::App& parent, const char* name, const char* help, const char* footer,
                  std::function<void()> callback) {
  CLI::App* sub = parent.add_subcommand(name, help);
  sub->footer(std::string("\n") + footer);
  sub->fallthrough();
  sub->callback(std::move(callback));
  return sub;
}

void add_init(CLI::App& app, CommandLine& line) {
  CLI::App* sub = command(
      app, "init", "Write a first dovetail.toml when there is none, and create the tables",
      "Run it again after an upgrade: it migrates the tables of every store of the config file.\n\n"
      "  dovetail init --roles                roles that may only publish, work, relay or operate\n"
      "  dovetail init --print-sql --roles    the SQL of a PostgreSQL database, to run by hand",
      [&line] { line.chosen = [&line] { return init(line.context, line.init); }; });
  sub->add_flag("--print-sql", line.init.print_sql,
                "Print the migration of a PostgreSQL database, and do nothing else");
  sub->add_flag("--roles", line.init.roles,
                "Also the roles dovetail_app, dovetail_worker, dovetail_relay and "
                "dovetail_operator of PostgreSQL");
}

void add_run(CLI::App& app, CommandLine& line) {
  CLI::App* sub = command(
      app, "run", "Run the relays and consumers of the config file, until SIGTERM or SIGINT",
      "Each [[relay]] and each [[consumer]] runs in threads of its own. The first SIGTERM or "
      "SIGINT "
      "lets\nwhat is in flight "
      "finish; a second one exits at once, which is safe too. A second 'dovetail run' on the same "
      "stores\n"
      "stands by and takes over when the first one dies.\n\n"
      "  dovetail run                       the daemon\n"
      "  dovetail run --until-idle          deliver what is there, then stop (for scripts)\n"
      "  dovetail run orders-to-inventory   only this relay, or this consumer",
      [&line] { line.chosen = [&line] { return run(line.context, line.run); }; });
  sub->add_option("relay", line.run.relays,
                  "Names of relays and consumers; without any, all of them run");
  sub->add_flag("--until-idle,--once", line.run.until_idle,
                "Stop when nothing is left to deliver; exit 1 when something is parked");
  sub->add_option("--idle-after", line.run.idle_after,
                  "How long nothing comes from a broker before --until-idle calls it idle, "
                  "such as 500ms")
      ->capture_default_str();
}

void add_publish(CLI::App& app, CommandLine& line) {
  PublishOptions& options = line.publish;
  CLI::App* sub = command(
      app, "publish", "Put one event into the outbox of a store, in a transaction of its own",
      "For trying things and for scripts. A service publishes inside its own transaction instead, "
      "with\n"
      "the library or with the INSERT that examples/publish.py shows.\n\n"
      "  dovetail publish --store orders --aggregate-type orders --key 17 --type OrderPlaced \\\n"
      "                   --payload '{\"total\": 3}' --header tenant=blue\n"
      "  generate | dovetail publish --store orders --aggregate-type orders --key 17 --type Report "
      "-\n\n"
      "With --id a repeated publish is harmless: the same id with the same content is accepted "
      "and\n"
      "stored once, with other content it is rejected (exit 5).",
      [&line] { line.chosen = [&line] { return publish(line.context, line.publish); }; });
  sub->add_option("--store", options.store, "Name of the store in the config file");
  sub->add_option("--aggregate-type", options.aggregate_type,
                  "What kind of thing the event is about")
      ->required();
  sub->add_option("--key", options.key,
                  "Which one: events of one key keep their order. Empty: no order is kept");
  sub->add_option("--type", options.type, "What happened, such as OrderPlaced")->required();
  auto* payload = sub->add_option("--payload", options.payload, "The payload itself");
  auto* file = sub->add_option("--payload-file", options.payload_file, "A file with the payload");
  auto* from_stdin =
      sub->add_option("stdin", options.payload_file, "\"-\" reads the payload from stdin")
          ->type_name("")
          ->check(CLI::IsMember({"-"}));
  payload->excludes(file)->excludes(from_stdin);
  file->excludes(from_stdin);
  sub->add_option("--content-type", options.content_type,
                  "Of the payload; what is declared as JSON must be valid JSON")
      ->capture_default_str();
  sub->add_option("--topic", options.topic,
                  "Where it goes; without it the relay's template decides");
  sub->add_option("--id", options.id, "A UUID, to make a repeated publish harmless");
  sub->add_option("--aggregate-version", options.version, "The aggregate's version, if it has one");
  sub->add_option("--deliver-at", options.deliver_at,
                  "Not before this time, such as 2026-01-31T09:00:00Z; PostgreSQL only");
  sub->add_option("--header", options.headers, "name=value; may be repeated")
      ->take_all()
      ->expected(1);
}

void add_status(CLI::App& app, CommandLine& line) {
  CLI::App* sub = command(
      app, "status", "Show what is pending, how old it is, what is parked, and who does the work",
      "  dovetail status\n"
      "  dovetail status --watch              again every second, with the rate\n"
      "  dovetail status --json | jq '.stores[].readers[] | {name, pending, parked}'",
      [&line] {
        line.status.every =
            std::chrono::microseconds(static_cast<std::int64_t>(line.watch_seconds * 1e6));
        line.chosen = [&line] { return status(line.context, line.status); };
      });
  sub->add_flag("--watch,-w", line.status.watch, "Show it again and again, until interrupted");
  sub->add_option("--every", line.watch_seconds, "Seconds between two looks of --watch")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 3600.0));
}

void add_events(CLI::App& app, CommandLine& line) {
  EventsOptions& options = line.events;
  CLI::App* sub =
      command(app, "events", "List events and what became of them; 'events show ID' follows one",
              "  dovetail events --store orders\n"
              "  dovetail events --store orders --state pending\n"
              "  dovetail events --store orders --state delayed\n"
              "  dovetail events --store inventory --box mailbox\n"
              "  dovetail events show 01932b7e-0000-7000-8000-000000000001",
              [] {});
  sub->add_option("--store", options.store, "Name of the store in the config file");
  sub->add_option("--reader", options.reader, "As seen by this relay or consumer");
  sub->add_option("--box", options.box, "outbox or mailbox")
      ->capture_default_str()
      ->check(CLI::IsMember({"outbox", "mailbox"}));
  sub->add_option("--state", options.state, "Only those that are in this state")
      ->check(CLI::IsMember({"pending", "delivered", "waiting", "parked", "discarded", "delayed"}));
  sub->add_option("--key", options.key, "Only those of this key");
  sub->add_option("--type", options.type, "Only those of this type");
  sub->add_option("--after", options.after, "Only those behind this position, to page on");
  sub->add_option("--limit", options.limit, "At most so many, from the oldest")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  CLI::App* show =
      command(*sub, "show", "Follow one event through every store of the config file", "", [&line] {
        line.chosen = [&line] {
          return events_show(line.context, line.event_id, line.events.store, line.show_payload);
        };
      });
  show->add_option("id", line.event_id, "The event's id")->required();
  show->add_flag("--payload", line.show_payload, "Print its payload too");
  CLI::App* cancel = command(
      *sub, "cancel", "Take an event away that waits for its time (--deliver-at)",
      "  dovetail events cancel 01932b7e-0000-7000-8000-000000000001 --reason 'order was "
      "cancelled'",
      [&line] {
        line.chosen = [&line] {
          return events_cancel(line.context, line.event_id, line.events.store, line.cancel_reason);
        };
      });
  cancel->add_option("id", line.event_id, "The event's id")->required();
  cancel->add_option("--reason", line.cancel_reason, "Why; it is kept in the audit")->required();
  sub->final_callback([&line] {
    if (!line.chosen) line.chosen = [&line] { return events_list(line.context, line.events); };
  });
}

void add_parked_selection(CLI::App& sub, ParkedOptions& options) {
  sub.add_option("id", options.ids, "Ids of parked events");
  sub.add_option("--key", options.key, "What is parked of this key");
  sub.add_flag("--all", options.all, "Everything that is parked");
  sub.add_flag("--yes,-y", options.yes, "Do it; without this only say how many it would be");
}

void add_parked(CLI::App& app, CommandLine& line) {
  ParkedOptions& options = line.parked;
  CLI::App* sub =
      command(app, "parked", "Look after events that could not be delivered",
              "An event that is rejected, or that failed too often, is parked; later events of its "
              "key wait\n"
              "behind it, in order; other keys go on. When the cause is mended, replay it: it is "
              "tried again,\n"
              "and what waits behind it follows. Or discard it, with a reason that is kept.\n\n"
              "  dovetail parked list\n"
              "  dovetail parked replay 01932b7e-0000-7000-8000-000000000001\n"
              "  dovetail parked replay --all            says how many; add --yes to do it\n"
              "  dovetail parked discard ID --reason 'test data'",
              [] {});
  sub->require_subcommand(1);
  sub->add_option("--store", options.store, "Only of this store");
  sub->add_option("--reader", options.reader, "Only of this relay or consumer");
  CLI::App* list = command(
      *sub, "list", "List what is parked and what waits behind it", "",
      [&line] { line.chosen = [&line] { return parked_list(line.context, line.parked); }; });
  list->add_option("--limit", options.limit, "At most so many")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  CLI::App* replay = command(
      *sub, "replay", "Try parked events again",
      "An id alone is replayed at once. --key and --all first say how many there are; add --yes to "
      "do it.",
      [&line] { line.chosen = [&line] { return parked_replay(line.context, line.parked); }; });
  add_parked_selection(*replay, options);
  CLI::App* discard = command(
      *sub, "discard", "Give parked events up, for good",
      "They stay listed as discarded, with the reason, until they are pruned.",
      [&line] { line.chosen = [&line] { return parked_discard(line.context, line.parked); }; });
  add_parked_selection(*discard, options);
  discard->add_option("--reason", options.reason, "Why; it is kept with the event")->required();
}

void add_gateway(CLI::App& app, CommandLine& line) {
  command(app, "gateway",
          "Stand before an HTTP service, so that requests with an Idempotency-Key run once",
          "It runs what [gateway] of the config file says, until SIGTERM or SIGINT; requests that "
          "are there\n"
          "may finish, and a second signal exits at once, which is safe too. The first request "
          "with a key\n"
          "reaches the service and its answer is kept; a repeat gets that answer. See "
          "docs/IDEMPOTENCY.md.",
          [&line] { line.chosen = [&line] { return gateway(line.context); }; });
}

void add_requests(CLI::App& app, CommandLine& line) {
  RequestsOptions& options = line.requests;
  CLI::App* sub = command(app, "requests",
                          "List, and forget, HTTP requests that are kept by their idempotency key",
                          "  dovetail requests --store orders --state unknown    those of which "
                          "nobody knows what became\n"
                          "  dovetail requests forget KEY --store orders --scope gateway --reason "
                          "'the order is not there'",
                          [] {});
  sub->add_option("--store", options.store, "Name of the store in the config file");
  sub->add_option("--state", options.state, "Only those that are in this state")
      ->check(CLI::IsMember({"running", "unknown", "finished"}));
  sub->add_option("--limit", options.limit, "At most so many, from the oldest")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  sub->require_subcommand(0, 1);
  command(*sub, "list", "List them", "", [&line] {
    line.chosen = [&line] { return requests_list(line.context, line.requests); };
  });
  CLI::App* forget = command(
      *sub, "forget", "Let the next request with this key run",
      "For one that is unknown, when somebody has looked at its effect, or for one that is "
      "finished.\n"
      "Not while it runs.",
      [&line] { line.chosen = [&line] { return requests_forget(line.context, line.requests); }; });
  forget->add_option("key", options.key, "The key")->required();
  forget->add_option("--scope", options.scope, "Whose key it is, as the list shows it")->required();
  forget->add_option("--reason", options.reason, "Why; PostgreSQL keeps it in dovetail.audit")
      ->required();
  sub->final_callback([&line] {
    if (!line.chosen) line.chosen = [&line] { return requests_list(line.context, line.requests); };
  });
}

void add_inbox(CLI::App& app, CommandLine& line) {
  ForgetOptions& options = line.forget;
  CLI::App* sub =
      command(app, "inbox", "Decide about events where the inbox cannot: apply, forget, remember",
              "  dovetail inbox apply stock 0190... --reason 'no booking of it is there'\n"
              "  dovetail inbox forget stock 0190... --reason 'the shelf was counted wrongly'\n"
              "  dovetail inbox remember --store inventory --since 2026-01-31T09:05:00Z --reason "
              "'a wrong clock'",
              [] {});
  sub->require_subcommand(1);
  CLI::App* forget = command(
      *sub, "forget", "Forget that a consumer has applied an event, and deliver it again",
      "Its effect happens a second time, on purpose. From an outbox in PostgreSQL the event comes "
      "again by\n"
      "itself; from elsewhere it is applied when it is delivered again. Later events of its key "
      "are not\n"
      "undone before.",
      [&line] { line.chosen = [&line] { return inbox_forget(line.context, line.forget); }; });
  forget->add_option("consumer", options.consumer, "The consumer, or one handler: stock.ledger")
      ->required();
  forget->add_option("id", options.id, "The event")->required();
  forget->add_option("--reason", options.reason, "Why; it is kept in dovetail.audit")->required();

  CLI::App* apply = command(
      *sub, "apply", "Apply an event that is older than what the inbox remembers, and replay it",
      "For an event that is parked because nobody knows whether it was applied. Check first that "
      "its effect\n"
      "is not there: if it was applied and forgotten, it happens twice now.",
      [&line] { line.chosen = [&line] { return inbox_apply(line.context, line.forget); }; });
  apply->add_option("consumer", options.consumer, "The consumer, or one handler: stock.ledger")
      ->required();
  apply->add_option("id", options.id, "The event")->required();
  apply->add_option("--reason", options.reason, "What you have checked; it is kept")->required();

  RememberOptions& remembered = line.remember;
  CLI::App* remember = command(
      *sub, "remember", "Repair an inbox that a wrong clock has made forget too much",
      "A clock that was ahead while old rows were deleted makes the inbox take new events for "
      "forgotten ones.\n"
      "--since is the moment of that deletion by a right clock. What is older stays parked; what "
      "is newer is\n"
      "applied. Check that nothing newer was applied before the deletion: it would be applied "
      "twice if it came\n"
      "again.",
      [&line] { line.chosen = [&line] { return inbox_remember(line.context, line.remember); }; });
  remember->add_option("--store", remembered.store, "Name of the store in the config file");
  remember->add_option("--since", remembered.since, "Such as 2026-01-31T09:05:00Z")->required();
  remember->add_option("--reason", remembered.reason, "What you have checked; it is kept")
      ->required();
}

void add_slots(CLI::App& app, CommandLine& line) {
  SlotsOptions& options = line.slots;
  CLI::App* sub = command(
      app, "slots", "List, and drop, the slots through which the log of PostgreSQL is read",
      "A slot makes the server keep its log until it was read. One that nobody reads any more "
      "fills "
      "the\n"
      "disk: 'dovetail doctor' names it. One that is in use is never dropped; one that a relay of "
      "the\n"
      "database will look for again needs --force.\n\n"
      "  dovetail slots\n"
      "  dovetail slots --drop dovetail_orders_1a2b3c4d",
      [&line] { line.chosen = [&line] { return slots(line.context, line.slots); }; });
  sub->add_option("--store", options.store, "Only of this store");
  auto* drop = sub->add_option("--drop", options.drop, "Drop the slot of this name");
  sub->add_flag("--force", options.force, "Also one that a relay reads through when it runs")
      ->needs(drop);
}

void add_relay(CLI::App& app, CommandLine& line) {
  RetargetOptions& options = line.retarget;
  CLI::App* sub = command(
      app, "relay", "Let a relay or a consumer go on with another target",
      "  dovetail relay retarget orders-to-inventory --reason 'the broker has moved'", [] {});
  sub->require_subcommand(1);
  CLI::App* retarget = command(
      *sub, "retarget", "Bind a relay to the target that the config file says now",
      "A relay is bound to the place that it fills, or to the broker that it reads, at its first "
      "start: two\n"
      "processes of one name with different targets would share its events between them. A start "
      "with\n"
      "another target is refused until this command says that it is meant. Stop every process "
      "that runs\n"
      "it before. Its progress stays: what was delivered to the old target does not go to the new "
      "one.",
      [&line] { line.chosen = [&line] { return relay_retarget(line.context, line.retarget); }; });
  retarget->add_option("name", options.name, "The relay or consumer")->required();
  retarget->add_option("--reason", options.reason, "Why; it is kept in the audit")->required();
}

void add_prune(CLI::App& app, CommandLine& line) {
  CLI::App* sub =
      command(app, "prune", "Delete old events that every reader has settled, and old inbox rows",
              "Without options it uses [retention] of the config file. Nothing that is pending, "
              "waiting or parked\n"
              "is deleted. 'dovetail run' does the same by itself now and then.\n\n"
              "  dovetail prune --sent 7d --inbox 30d",
              [&line] { line.chosen = [&line] { return prune(line.context, line.prune); }; });
  sub->add_option("--sent", line.prune.sent, "Delete settled events older than this, such as 7d");
  sub->add_option("--inbox", line.prune.inbox,
                  "Forget ids older than this; an older event that comes again is parked, and not "
                  "applied");
}

void add_doctor(CLI::App& app, CommandLine& line) {
  CLI::App* sub = command(
      app, "doctor", "Say what is wrong with the stores, and what to do about it",
      "It changes nothing that lasts: where a log is to be read, it writes a message into it and "
      "sees it\n"
      "come out, through a slot that ends with it. Exit 1 when there is an error among the "
      "findings; a warning or a note "
      "is exit 0.",
      [&line] { line.chosen = [&line] { return doctor(line.context, line.doctor_store); }; });
  sub->add_option("--store", line.doctor_store, "Only this store");
}

void add_demo(CLI::App& app, CommandLine& line) {
  DemoOptions& options = line.demo;
  CLI::App* sub = command(
      app, "demo", "Watch two services survive kill -9, and check that nothing was lost or doubled",
      "An order service, a relay and an inventory service run as separate processes on SQLite "
      "files.\n"
      "Relay and inventory service are killed with SIGKILL on the way; one order is poison, is "
      "parked and\n"
      "later replayed. At the end the books of both services are compared; exit 1 if they differ.",
      [&line] { line.chosen = [&line] { return demo(line.context, line.demo); }; });
  sub->add_option("--orders", options.orders, "How many orders are placed")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{20}, std::uint64_t{1'000'000}));
  sub->add_option("--kills", options.kills, "How many times a process is killed")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1000}));
  sub->add_option("--dir", options.dir, "Work in this new folder and keep it");
  sub->add_flag("--plain", options.plain, "Plain lines instead of a moving display");
  sub->add_option("--seed", options.seed, "Choose the moments of the kills by this number");
  sub->add_option("--role", options.role)->group("");
}

void build(CLI::App& app, CommandLine& line) {
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", "dovetail " DOVETAIL_VERSION);
  app.add_option("--config,-c", line.config, "The config file")
      ->capture_default_str()
      ->envname("DOVETAIL_CONFIG");
  app.add_flag("--json", line.context.json, "Print one JSON document instead of text");
  add_init(app, line);
  add_run(app, line);
  add_publish(app, line);
  add_status(app, line);
  add_events(app, line);
  add_parked(app, line);
  add_gateway(app, line);
  add_requests(app, line);
  add_inbox(app, line);
  add_slots(app, line);
  add_relay(app, line);
  add_prune(app, line);
  add_doctor(app, line);
  add_demo(app, line);
  command(app, "version", "Print the version", "",
          [&line] { line.chosen = [&line] { return version(line.context); }; });
}

int report(const CommandLine& line, const Failure& failure) {
  if (line.context.json) print_json_error(to_string(failure.exit), failure.text);
  std::fprintf(stderr, "dovetail: %s\n", failure.text.c_str());
  return static_cast<int>(failure.exit);
}

// A wrong command line may not have got as far as --json.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

// The first word that is no command where one is expected; empty: there is no such word.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* now = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.size() > 1 && word.front() == '-') {
      const CLI::Option* option = now->get_option_no_throw(word);
      if (option == nullptr) option = app.get_option_no_throw(word);
      if (option != nullptr && option->get_items_expected_max() > 0) ++i;
      continue;
    }
    const auto commands = now->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) return {};
    const CLI::App* next = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* one : commands) {
      names.push_back(one->get_name());
      if (one->get_name() == word) next = one;
    }
    if (next != nullptr) {
      now = next;
      continue;
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string parent = now == &app ? "" : now->get_name() + " ";
    const std::string_view near = config::nearest_name(word, known);
    std::string text = "there is no command \"" + parent + printable(word, 60) + "\"; ";
    if (!near.empty()) text += "did you mean \"" + parent + std::string(near) + "\"? ";
    text += "There are: ";
    for (const std::string& name : names) {
      if (&name != &names.front()) text += ", ";
      text += name;
    }
    return text + "; see 'dovetail " + parent + "--help'";
  }
  return {};
}

int main_of(int argc, char** argv) {
  CLI::App app(kIntroduction, "dovetail");
  CommandLine line;
  build(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    line.context.json = asks_for_json(argc, argv);
    if (const std::string unknown = unknown_command(app, argc, argv); !unknown.empty())
      return report(line, {Exit::usage, unknown});
    return report(line, {Exit::usage, std::string(error.what()) + "; see 'dovetail --help'"});
  }
  line.context.config_file = line.config;
  const Answer answer = line.chosen();
  return answer ? static_cast<int>(*answer) : report(line, answer.error());
}

}  // namespace
}  // namespace dovetail::app

int main(int argc, char** argv) {
  // A reader of our output that goes away is no reason to die without draining.
  std::signal(SIGPIPE, SIG_IGN);
  int exit_code = static_cast<int>(dovetail::app::Exit::corrupt);
  try {
    exit_code = dovetail::app::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dovetail: %s; this is a bug in dovetail\n", error.what());
  }
  if (dovetail::wait_for_errands(std::chrono::milliseconds(100))) return exit_code;
  // A thread still waits for a server. It must not meet the end of static objects, and nobody is to
  // wait for it.
  std::fflush(nullptr);
  ::_exit(exit_code);
}
