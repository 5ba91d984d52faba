#include "commands/parked.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"
#include "documents/events.h"

namespace dovetail::app {

using namespace assembly;
namespace {

using Rows = std::vector<ParkedPlace>;

// All rows that `keep` accepts, from all chosen stores, at most `limit`.
template <class Keep>
Expected<Rows> collect(const config::Config& config, const ParkedOptions& options, bool heads_only,
                       std::size_t limit, Keep keep) {
  if (!options.store.empty()) {
    const auto known = choose_store(config, options.store);
    if (!known) return tl::unexpected(known.error());
  }
  constexpr std::size_t kPage = 1000;
  Rows found;
  for (const config::StoreConfig& store : config.stores) {
    if (!options.store.empty() && store.name != options.store) continue;
    if (store.is_broker()) continue;
    if (const auto checked = check_secrets(store); !checked) return tl::unexpected(checked.error());
    ParkedFilter filter;
    filter.relay = options.relay;
    filter.key = options.key;
    filter.heads_only = heads_only;
    filter.limit = kPage;
    while (found.size() < limit) {
      auto page = database_of(store)->list_parked(filter);
      if (!page) return refuse_in(store, page.error());
      for (ParkedRow& row : *page) {
        filter.after = row.number;
        if (found.size() < limit && keep(row)) found.push_back({&store, std::move(row)});
      }
      if (page->size() < kPage) break;
    }
  }
  return found;
}

Expected<Rows> select_by_id(const config::Config& config, const ParkedOptions& options) {
  std::vector<EventId> ids;
  for (const std::string& text : options.ids) {
    const auto id = EventId::parse(text);
    if (!id) return refuse(id.error());
    ids.push_back(*id);
  }
  auto rows = collect(config, options, false, SIZE_MAX, [&ids](const ParkedRow& row) {
    return std::find(ids.begin(), ids.end(), row.id) != ids.end();
  });
  if (!rows) return rows;
  for (const EventId& id : ids) {
    bool known = false;
    for (const ParkedPlace& place : *rows) {
      if (place.row.id != id) continue;
      known = true;
      if (!place.row.head) {
        return refuse(Exit::rejected, id.to_string() + " waits behind another event of its key; " +
                                          "choose that one (see 'dovetail parked list')");
      }
    }
    if (!known) {
      return refuse(Exit::rejected, id.to_string() + " is not parked (see 'dovetail parked list')");
    }
  }
  return rows;
}

// One line per event. If the terminal is too narrow for the reason, it goes below, cut at the
// width; in a pipe nothing is cut.
std::string text_of(const Rows& rows, std::optional<std::size_t> width) {
  constexpr std::size_t kReasonMin = 40;
  const std::vector<std::string> titles{"ID",   "STATE",     "STORE",  "RELAY", "KEY",
                                        "TYPE", ">ATTEMPTS", ">SINCE", "REASON"};
  Table whole(titles);
  Table narrow(std::vector<std::string>(titles.begin(), titles.end() - 1));
  std::vector<std::string> reasons;
  const WallTime now = wall_now();
  for (const auto& [store, row] : rows) {
    std::vector<std::string> cells{row.id.to_string(),
                                   std::string(to_string(row.state)),
                                   store->name,
                                   printable(row.relay, 30),
                                   printable(row.aggregate_type + "/" + row.aggregate_id, 40),
                                   printable(row.type, 30),
                                   std::to_string(row.attempts),
                                   ago(row.parked_at, now)};
    narrow.add(cells);
    reasons.push_back(row.head ? printable(row.reason, kWhole) : "behind another event of its key");
    cells.push_back(reasons.back());
    whole.add(std::move(cells));
  }
  std::string short_lines = narrow.to_string();
  std::size_t used = short_lines.find('\n');
  if (!width || used + 2 + kReasonMin <= *width) return whole.to_string(width);
  // The columns go that one misses least.
  short_lines = narrow.fitting(width, {2, 6, 3, 5});
  used = short_lines.find('\n');
  std::string text = short_lines.substr(0, used + 1);
  std::size_t begin = used + 1;
  for (const std::string& reason : reasons) {
    const std::size_t end = short_lines.find('\n', begin);
    text += short_lines.substr(begin, end - begin) + "\n    " +
            printable(reason, std::max<std::size_t>(*width, 20) - 8) + "\n";
    begin = end + 1;
  }
  return text;
}

Json ids_of(const Rows& rows) {
  Json ids = Json::array();
  for (const ParkedPlace& place : rows) ids.push_back(place.row.id.to_string());
  return ids;
}

std::string events(std::size_t count) {
  return config::human_count(count) + (count == 1 ? " parked event" : " parked events");
}

// False: prints the number of events and asks for --yes. An explicit id needs no --yes.
bool agreed(const CommandContext& context, const ParkedOptions& options, const Rows& heads,
            const char* verb) {
  if (options.yes || !options.ids.empty() || heads.empty()) return true;
  if (context.json) {
    print_json({{"would_" + std::string(verb), heads.size()}, {"ids", ids_of(heads)}});
  } else {
    print("this will " + std::string(verb) + " " + events(heads.size()) + "; add --yes to do it\n");
  }
  return false;
}

}  // namespace

Expected<Rows> select_heads(const config::Config& config, const ParkedOptions& options) {
  const int ways =
      (options.ids.empty() ? 0 : 1) + (options.key.empty() ? 0 : 1) + (options.all ? 1 : 0);
  if (ways != 1) return refuse(Exit::usage, "choose events: give ids, --key or --all");
  if (!options.ids.empty()) return select_by_id(config, options);
  return collect(config, options, true, SIZE_MAX,
                 [](const ParkedRow& row) { return row.state == EventState::parked; });
}

Expected<std::uint64_t> replay(const Rows& heads) {
  std::uint64_t count = 0;
  for (const ParkedPlace& place : heads) {
    const auto set_going = database_of(*place.store)->replay(place.row.relay, place.row.id, {});
    if (!set_going) return refuse_in(*place.store, set_going.error());
    count += *set_going;
  }
  return count;
}

namespace {

Answer parked_list(const CommandContext& context, const ParkedOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto rows =
      collect(*config, options, false, options.limit, [](const ParkedRow&) { return true; });
  if (!rows) return tl::unexpected(rows.error());
  if (context.json) {
    Json list = Json::array();
    for (const ParkedPlace& place : *rows) list.push_back(json_of(place));
    print_json({{"parked", list}});
    return Exit::ok;
  }
  print(rows->empty() ? "nothing is parked\n" : text_of(*rows, terminal_width()));
  return Exit::ok;
}

Answer parked_replay(const CommandContext& context, const ParkedOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto heads = select_heads(*config, options);
  if (!heads) return tl::unexpected(heads.error());
  if (!agreed(context, options, *heads, "replay")) return Exit::ok;
  const auto count = replay(*heads);
  if (!count) return tl::unexpected(count.error());
  if (context.json) {
    print_json({{"replayed", *count}, {"ids", ids_of(*heads)}});
  } else {
    print("replaying " + events(*count) + "; events behind them follow automatically\n");
  }
  return Exit::ok;
}

Answer parked_discard(const CommandContext& context, const ParkedOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto heads = select_heads(*config, options);
  if (!heads) return tl::unexpected(heads.error());
  if (!agreed(context, options, *heads, "discard")) return Exit::ok;
  for (const ParkedPlace& place : *heads) {
    const auto discarded =
        database_of(*place.store)->discard(place.row.relay, place.row.id, options.reason);
    if (!discarded) return refuse_in(*place.store, discarded.error());
  }
  if (context.json) {
    print_json({{"discarded", heads->size()}, {"ids", ids_of(*heads)}});
  } else {
    print("discarded " + events(heads->size()) + "; events behind them follow automatically\n");
  }
  return Exit::ok;
}

void add_selection(Command& command, ParkedOptions& options) {
  command.option("id", options.ids, "Ids of parked events");
  command.option("--key", options.key, "Parked events of this key");
  command.flag("--all", options.all, "All parked events");
  command.flag("--yes,-y", options.yes, "Do it; otherwise only print how many events are affected");
}

}  // namespace

void add_parked(Command& app) {
  const auto options = std::make_shared<ParkedOptions>();
  Command sub = app.command(
      "parked", "List, replay or discard events that could not be delivered",
      "An event that is rejected or fails too often is parked. Later events of its key wait "
      "behind it, in\n"
      "order; other keys continue. When the cause is fixed, replay the event: it is sent "
      "again, and the\n"
      "events behind it follow. Or discard it with a reason, which is recorded.\n\n"
      "  dovetail parked list\n"
      "  dovetail parked replay 01932b7e-0000-7000-8000-000000000001\n"
      "  dovetail parked replay --all            prints how many; add --yes to do it\n"
      "  dovetail parked discard ID --reason 'test data'");
  sub.requires_command();
  sub.option("--store", options->store, "Only events in this store");
  sub.option("--relay", options->relay, "Only events of this relay or consumer");
  Command list = sub.command(
      "list", "List parked events and the events behind them", "",
      [options](const CommandContext& context) { return parked_list(context, *options); });
  list.option("--limit", options->limit, "Maximum number of events")
      .shows_default()
      .range(1, 100000);
  Command replay = sub.command(
      "replay", "Send parked events again",
      "Events given by id are replayed at once. --key and --all only print how many events are "
      "affected; add\n"
      "--yes to do it.",
      [options](const CommandContext& context) { return parked_replay(context, *options); });
  add_selection(replay, *options);
  Command discard = sub.command(
      "discard", "Give up parked events permanently",
      "They stay listed as discarded, with the reason, until they are pruned.",
      [options](const CommandContext& context) { return parked_discard(context, *options); });
  add_selection(discard, *options);
  discard.option("--reason", options->reason, "Why; recorded with the event").required();
}

}  // namespace dovetail::app
