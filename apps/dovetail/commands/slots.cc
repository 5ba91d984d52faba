#include "documents/slots.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"

namespace dovetail::app {
namespace {

struct SlotsOptions {
  std::string store;
  std::string drop;  // name of the slot; empty: list slots
  bool force = false;
};

std::string slot_state(const assembly::WalSlot& slot) {
  if (slot.invalidation.empty()) return slot.wal_status.empty() ? "-" : slot.wal_status;
  return slot.wal_status + " (" + slot.invalidation + ")";
}

void print_list(const CommandContext& context, const std::vector<ListedSlot>& all) {
  if (context.json) {
    Json list = Json::array();
    for (const ListedSlot& one : all) list.push_back(json_of(one));
    return print_json({{"slots", list}});
  }
  Table table({"SLOT", "DATABASE", "RELAY", "MODE", ">RETAINED", "STATE", "READ BY"});
  for (const auto& [store, slot] : all)
    table.add({slot.name, printable(slot.database, 40),
               slot.relay.empty() ? "-" : printable(slot.relay, 40), mode_of(slot),
               config::human_size(static_cast<std::uint64_t>(slot.retained_bytes)),
               slot_state(slot),
               slot.read_by == 0 ? "nobody" : "pid " + std::to_string(slot.read_by)});
  print(table.rows() == 0 ? "no slots\n" : table.to_string());
}

Answer drop(const CommandContext& context, const std::vector<ListedSlot>& all,
            const SlotsOptions& options) {
  for (const auto& [store, slot] : all) {
    if (slot.name != options.drop) continue;
    const Status dropped = assembly::database_of(*store)->drop_slot(slot.name, options.force);
    if (!dropped) return refuse_in(*store, dropped.error());
    if (context.json)
      print_json({{"dropped", slot.name}});
    else
      print("dropped: the server no longer retains WAL for " + slot.name + "\n");
    return Exit::ok;
  }
  return refuse(Exit::rejected, "dovetail has no slot \"" + options.drop +
                                    "\" there; 'dovetail slots' lists its slots");
}

Answer slots(const CommandContext& context, const SlotsOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto all = list_slots(*config, options.store);
  if (!all) return tl::unexpected(all.error());
  if (!options.drop.empty()) return drop(context, *all, options);
  print_list(context, *all);
  return Exit::ok;
}

}  // namespace

void add_slots(Command& app) {
  const auto options = std::make_shared<SlotsOptions>();
  Command sub = app.command(
      "slots", "List or drop the replication slots through which relays read PostgreSQL's WAL",
      "A slot makes the server retain WAL until it was read. An unused slot fills the disk; "
      "'dovetail doctor'\n"
      "reports it. An active slot is never dropped. A slot that a relay of the database still "
      "needs is dropped\n"
      "only with --force.\n\n"
      "  dovetail slots\n"
      "  dovetail slots --drop dovetail_orders_1a2b3c4d",
      [options](const CommandContext& context) { return slots(context, *options); });
  sub.option("--store", options->store, "Only slots of this store");
  Option drop = sub.option("--drop", options->drop, "Drop the slot with this name");
  sub.flag("--force", options->force, "Also drop a slot that a relay still needs").needs(drop);
}

}  // namespace dovetail::app
