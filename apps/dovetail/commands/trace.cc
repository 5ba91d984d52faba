// What became of one event, and why.
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "assembly/life.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "reports/life_report.h"

namespace dovetail::app {

namespace {

using Text = std::string (*)(const life::Facts& facts, const life::Life& life,
                             std::optional<std::size_t> width);

Answer tell(const CommandContext& context, const std::string& text_id, Text text) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto id = EventId::parse(text_id);
  if (!id) return refuse(id.error());
  const Result<life::Facts> facts = assembly::gather_life(*config, *id);
  if (!facts) return refuse(facts.error());
  if (!life::is_found(*facts)) {
    std::string why = (facts->unasked.empty() ? "no store" : "no store that could be read") +
                      (" knows the event " + id->to_string()) +
                      "; it may have been pruned, or its transaction never committed";
    for (const life::Unasked& one : facts->unasked)
      why += "; not asked: " + one.store + ": " + one.why;
    return refuse(facts->unasked.empty() ? Exit::negative : Exit::unavailable, why);
  }
  const life::Life life = life::life_of(*facts);
  if (context.json) {
    print_json(json_of(*facts, life));
  } else {
    print(text(*facts, life, terminal_width()));
  }
  return Exit::ok;
}

}  // namespace

void add_trace(Command& app) {
  auto id = std::make_shared<std::string>();
  Command trace =
      app.command("trace", "Follow one event over every store and broker of the config file",
                  "Commit, relay, attempts with their reasons, where the broker put it, and what "
                  "each consumer\n"
                  "did with it. What nobody recorded is shown as unknown.\n\n"
                  "  dovetail trace 01932b7e-0000-7000-8000-000000000001",
                  [id](const CommandContext& context) { return tell(context, *id, steps_text); });
  trace.option("id", *id, "The event's id").required();
  Command explain =
      app.command("explain", "Say which rule routed an event, who owns its lane, and why it waits",
                  "  dovetail explain 01932b7e-0000-7000-8000-000000000001",
                  [id](const CommandContext& context) { return tell(context, *id, explain_text); });
  explain.option("id", *id, "The event's id").required();
}

}  // namespace dovetail::app
