#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct InitOptions {
  bool print_sql = false;  // instead of running it
  bool roles = false;      // also creates the roles of a PostgreSQL database
};

namespace fs = std::filesystem;

constexpr std::string_view kFirstConfig =
    R"(# Dovetail: the databases, the relays between them, and the consumers that handle events.

[store.orders]
url = "sqlite:orders.db"         # a path, relative to this file
# url = "postgres:host=db dbname=shop user=shop"   # or a PostgreSQL database
# password_file = "shop.password"  # or password_env, or PGPASSFILE; never in the url
# payload_max = "1000KiB"        # a larger payload is rejected when it is published

[store.inventory]
url = "sqlite:inventory.db"
# topics = ["orders.events"]     # the only topics that its mailbox accepts; default: all
# url = "kafka://host:9092"      # or a broker: kafka, amqp, nats, redis, http; see docs/BROKERS.md

[[relay]]
name = "orders-to-inventory"     # its progress and its lease have this name: do not change it
from = "orders"                  # reads the outbox of this store
to = "inventory"                 # fills the mailbox of this store
topic = "{aggregate_type}.events"  # also {type}, {aggregate_id}, {content_type}
# attempts_max = 15              # failures of an event, while others pass, before it is parked
# lease = "10s"                  # how long a stand-by waits after this relay died
# retry_base = "250ms"           # the first wait after a failure; doubles, with jitter,
# retry_cap = "10m"              # up to this
# batch_events = 1000            # in one transaction of the mailbox
# window_events = 8000           # in flight; also the maximum of duplicates after a crash
# [relay.table]                  # PostgreSQL: reads an existing table instead of the outbox
# preset = "status"              # or sent_at, message, processed_at, debezium, or your own keys

# [[consumer]]                     # handles each delivered event once
# name = "stock"                 # its progress and its inbox rows have this name: do not change it
# from = "orders"                # an outbox or a broker; or the same SQLite file: its mailbox
# to = "inventory"               # the database with its inbox
# [[consumer.handler]]
# kind = "sql"                   # PostgreSQL: a function, in the transaction of the inbox
# function = "shop.move_stock"   #   CREATE FUNCTION shop.move_stock(event dovetail.event) ...
# # kind = "queue"               # PostgreSQL: a service gets it with dovetail.receive()
# # kind = "http"                # outside the transaction, so at least once: a request to
# # store = "mailer"             #   a store with an http url
# # kind = "command"             # also at least once: a program gets the event on stdin
# # command = ["bin/mail-it"]
# # environment = ["TMPDIR"]     #   its only variables besides PATH, HOME, LANG and TZ

[retention]
delivered = "7d"                 # delivered events are deleted after this
inbox = "30d"                    # ids are remembered this long to recognise duplicates

[log]
format = "text"                  # or "json"
# level = "info"                 # debug, info, warn, error
)";

// True: written. False: the file already exists; another process may just have created it.
Expected<bool> write_first_config(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    if (errno == EEXIST) return false;
    return refuse(Exit::unavailable, file.string() + ": cannot write the file (" +
                                         std::strerror(errno) +
                                         "); check the folder and its permissions");
  }
  const ssize_t written = ::write(descriptor, kFirstConfig.data(), kFirstConfig.size());
  const bool whole = written == static_cast<ssize_t>(kFirstConfig.size());
  if (::close(descriptor) != 0 || !whole) {
    ::unlink(file.c_str());
    return refuse(Exit::unavailable,
                  file.string() + ": cannot write the whole file; check the disk");
  }
  return true;
}

// Needs neither a config file nor a server: the SQL is the same for every database.
Answer print_sql(const CommandContext& context, bool with_roles) {
  const auto sql = migration_sql(with_roles);
  if (!sql) return refuse(sql.error());
  if (context.json) {
    print_json({{"sql", *sql}});
  } else {
    print(*sql);
  }
  return Exit::ok;
}

// True: there were no tables before. Nothing is created at a broker, so its secrets are not needed.
Expected<bool> create_in(const config::StoreConfig& store, bool with_roles) {
  if (const auto checked = check_secrets(store); !checked && !store.is_broker())
    return tl::unexpected(checked.error());
  const auto created = database_of(store)->create(with_roles);
  if (!created) return refuse_in(store, created.error());
  return *created;
}

// A store that fails says so, and what became of the others.
tl::unexpected<Failure> refuse_some(const std::vector<Failure>& failures, const std::string& done) {
  std::string text;
  for (const Failure& one : failures) text += (text.empty() ? "" : "; ") + one.text;
  if (!done.empty()) text += "; done: " + done + "; run it again when the rest can be reached";
  return refuse(failures.front().exit, text);
}

Answer init(const CommandContext& context, const InitOptions& options) {
  if (options.print_sql) return print_sql(context, options.roles);
  const auto written = write_first_config(context.config_file);
  if (!written) return tl::unexpected(written.error());
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());

  if (options.roles &&
      std::none_of(config->stores.begin(), config->stores.end(),
                   [](const config::StoreConfig& store) { return store.type().has_roles; })) {
    return refuse(Exit::usage, "--roles needs a PostgreSQL store, but the config has none");
  }

  Json stores = Json::array();
  std::string text;
  std::string done;
  std::vector<Failure> failures;
  if (*written) text += "wrote " + context.config_file.string() + "\n";
  for (const config::StoreConfig& store : config->stores) {
    const Expected<bool> created = create_in(store, options.roles);
    if (!created) {
      failures.push_back(created.error());
      continue;
    }
    if (!store.is_broker())
      done += (done.empty() ? "" : ", ") + store.name + (*created ? " created" : " is up to date");
    stores.push_back({{"name", store.name}, {"path", store.shown}, {"created", *created}});
    text += "store " + store.name + ": " + store.shown +
            (store.is_broker() ? " is a broker, nothing to create\n"
             : *created        ? " created\n"
                               : " is up to date\n");
  }
  if (!failures.empty()) return refuse_some(failures, done);
  if (context.json) {
    print_json(
        {{"config", context.config_file.string()}, {"written", *written}, {"stores", stores}});
  } else {
    print(text);
  }
  return Exit::ok;
}

}  // namespace

void add_init(Command& app) {
  const auto options = std::make_shared<InitOptions>();
  Command sub = app.command(
      "init", "Write a first dovetail.toml if none exists, and create the tables",
      "Run it again after an upgrade: it migrates the tables of every store in the config file.\n\n"
      "  dovetail init --roles                roles that may only publish, work, relay or operate\n"
      "  dovetail init --print-sql --roles    the SQL of a PostgreSQL database, to run by hand",
      [options](const CommandContext& context) { return init(context, *options); });
  sub.flag("--print-sql", options->print_sql, "Only print the migration of a PostgreSQL database");
  sub.flag("--roles", options->roles,
           "Also create the PostgreSQL roles dovetail_app, dovetail_worker, dovetail_relay and "
           "dovetail_operator");
}

}  // namespace dovetail::app
