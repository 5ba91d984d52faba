#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct InitOptions {
  bool print_sql = false;  // instead of running it
  bool roles = false;      // also those of a PostgreSQL database
};

namespace fs = std::filesystem;

constexpr std::string_view kFirstConfig =
    R"(# Dovetail: which databases there are, which relays run between them, and who handles events.

[store.orders]
url = "sqlite:orders.db"         # a path, relative to this file
# url = "postgres:host=db dbname=shop user=shop"   # or a PostgreSQL database
# password_file = "shop.password"  # or password_env, or PGPASSFILE; never in the url
# payload_max = "1000KiB"        # a larger payload is rejected when it is published

[store.inventory]
url = "sqlite:inventory.db"
# topics = ["orders.events"]     # the only topics that its mailbox accepts; without it, all
# url = "kafka://host:9092"      # or a broker: kafka, amqp, nats, redis, http; see docs/BROKERS.md

[[relay]]
name = "orders-to-inventory"     # also the name of its progress and its lease: keep it
from = "orders"                  # its outbox is read
to = "inventory"                 # its mailbox is filled
topic = "{aggregate_type}.events"  # also {type}, {aggregate_id}, {content_type}
# attempts_max = 15              # failures of one event, while others pass, before it is parked
# lease = "10s"                  # how long a stand-by waits after this relay died
# retry_base = "250ms"           # the first wait after a failure; doubles, with jitter,
# retry_cap = "10m"              # up to this
# batch_events = 1000            # in one transaction of the mailbox
# window_events = 8000           # read and not settled; also the most duplicates after a crash
# [relay.table]                  # PostgreSQL: serve a table that exists already, not the outbox
# preset = "status"              # or sent_at, message, processed_at, debezium, or by hand

# [[consumer]]                     # handles what was delivered, each event once
# name = "stock"                 # also the name of its progress and its inbox rows: keep it
# from = "orders"                # an outbox, a broker; the own SQLite file: its mailbox
# to = "inventory"               # the database that has its inbox
# [[consumer.handler]]
# kind = "sql"                   # PostgreSQL: a function, in the transaction of the inbox
# function = "shop.move_stock"   #   CREATE FUNCTION shop.move_stock(event dovetail.event) ...
# # kind = "queue"               # PostgreSQL: a service takes it from there, with receive()
# # kind = "http"                # outside the transaction, so at least once: a request to
# # store = "mailer"             #   a store with an http url
# # kind = "command"             # likewise: a program gets the event on stdin
# # command = ["bin/mail-it"]
# # environment = ["TMPDIR"]     #   beside PATH, HOME, LANG and TZ: it gets no other variable

[retention]
sent = "7d"                      # delivered events are deleted after this
inbox = "30d"                    # ids are remembered this long to recognise duplicates

[log]
format = "text"                  # or "json"
# level = "info"                 # debug, info, warn, error
)";

// True: written. False: there was one already, perhaps made by somebody else a moment ago.
Expected<bool> write_first_config(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    if (errno == EEXIST) return false;
    return refuse(Exit::unavailable, file.string() + ": cannot be written (" +
                                         std::strerror(errno) +
                                         "); check the folder and its permissions");
  }
  const ssize_t written = ::write(descriptor, kFirstConfig.data(), kFirstConfig.size());
  const bool whole = written == static_cast<ssize_t>(kFirstConfig.size());
  if (::close(descriptor) != 0 || !whole) {
    ::unlink(file.c_str());
    return refuse(Exit::unavailable, file.string() + ": cannot be written whole; check the disk");
  }
  return true;
}

// Needs neither a config file nor a server: it is the same for every database.
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

Answer init(const CommandContext& context, const InitOptions& options) {
  if (options.print_sql) return print_sql(context, options.roles);
  const auto written = write_first_config(context.config_file);
  if (!written) return tl::unexpected(written.error());
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());

  if (options.roles &&
      std::none_of(config->stores.begin(), config->stores.end(),
                   [](const config::StoreConfig& store) { return store.type().has_roles; })) {
    return refuse(Exit::usage, "--roles is for PostgreSQL stores, and the config has none");
  }

  Json stores = Json::array();
  std::string text;
  if (*written) text += "wrote " + context.config_file.string() + "\n";
  for (const config::StoreConfig& store : config->stores) {
    // A broker is left alone, so its secrets are not needed.
    if (const auto checked = check_secrets(store); !checked && !store.is_broker())
      return tl::unexpected(checked.error());
    const auto created = database_of(store)->create(options.roles);
    if (!created) return refuse_in(store, created.error());
    stores.push_back({{"name", store.name}, {"path", store.shown}, {"created", *created}});
    text += "store " + store.name + ": " + store.shown +
            (store.is_broker() ? " is a broker, nothing to create\n"
             : *created        ? " created\n"
                               : " is up to date\n");
  }
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
      "init", "Write a first dovetail.toml when there is none, and create the tables",
      "Run it again after an upgrade: it migrates the tables of every store of the config file.\n\n"
      "  dovetail init --roles                roles that may only publish, work, relay or operate\n"
      "  dovetail init --print-sql --roles    the SQL of a PostgreSQL database, to run by hand",
      [options](const CommandContext& context) { return init(context, *options); });
  sub.flag("--print-sql", options->print_sql,
           "Print the migration of a PostgreSQL database, and do nothing else");
  sub.flag("--roles", options->roles,
           "Also the roles dovetail_app, dovetail_worker, dovetail_relay and "
           "dovetail_operator of PostgreSQL");
}

}  // namespace dovetail::app
