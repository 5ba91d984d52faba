#include <nlohmann/json.hpp>
#include <string>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct PruneOptions {
  std::string delivered;  // durations, as in the file; empty: the file's value
  std::string inbox;
};

Answer prune(const CommandContext& context, const PruneOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  config::RetentionConfig retention = config->retention;
  if (!options.delivered.empty()) {
    const auto delivered = duration_of(options.delivered, "--delivered");
    if (!delivered) return tl::unexpected(delivered.error());
    retention.delivered = *delivered;
  }
  if (!options.inbox.empty()) {
    const auto inbox = duration_of(options.inbox, "--inbox");
    if (!inbox) return tl::unexpected(inbox.error());
    retention.inbox = *inbox;
  }
  if (!retention.wanted()) {
    return refuse(Exit::usage,
                  "no retention is set: give --delivered and --inbox, or set "
                  "them in [retention] of " +
                      config->file.string());
  }

  Json stores = Json::array();
  Table table(
      {"STORE", ">OUTBOX", ">MAILBOX", ">INBOX", ">CLAIMS", ">REQUESTS", ">PARKED", "NOTE"});
  for (const config::StoreConfig& store : config->stores) {
    if (store.is_broker()) continue;  // a broker has its own retention
    if (const auto checked = check_secrets(store); !checked) return tl::unexpected(checked.error());
    const auto report = database_of(store)->prune({.keep = retention});
    if (!report) {
      return refuse_in(store, report.error());
    }
    std::string note = report->finished ? "" : "more to delete: run it again";
    for (const std::string& one : report->notes) note += (note.empty() ? "" : "; ") + one;
    table.add({store.name, config::human_count(report->outbox),
               config::human_count(report->mailbox), config::human_count(report->inbox),
               config::human_count(report->attempts + report->claims),
               config::human_count(report->requests), config::human_count(report->parked), note});
    stores.push_back({{"name", store.name},
                      {"outbox", report->outbox},
                      {"mailbox", report->mailbox},
                      {"inbox", report->inbox},
                      {"attempts", report->attempts},
                      {"claims", report->claims},
                      {"requests", report->requests},
                      {"parked", report->parked},
                      {"audit", report->audit},
                      {"finished", report->finished},
                      {"notes", report->notes}});
  }
  if (context.json) {
    print_json({{"stores", stores}});
  } else {
    print("rows deleted\n" + table.to_string());
  }
  return Exit::ok;
}

}  // namespace

void add_prune(Command& app) {
  const auto options = std::make_shared<PruneOptions>();
  Command sub = app.command(
      "prune", "Delete old events that every relay has delivered or parked, and old inbox rows",
      "Without options it uses [retention] of the config file. It never deletes pending, "
      "waiting or parked\n"
      "events. 'dovetail run' also prunes periodically.\n\n"
      "  dovetail prune --delivered 7d --inbox 30d",
      [options](const CommandContext& context) { return prune(context, *options); });
  sub.option("--delivered", options->delivered,
             "Delete delivered events older than this, for example 7d");
  sub.option("--inbox", options->inbox,
             "Forget ids older than this; an older event that comes again is parked, not "
             "applied");
}

}  // namespace dovetail::app
