#include "config/reference.h"

#include <algorithm>
#include <utility>

#include "config/tables.h"
#include "config/units.h"

namespace dovetail::config {
namespace {

template <class Declare>
TableReference reference_of(std::string name, std::string title, std::string about,
                            Declare declare) {
  Settings keys;
  declare(keys);
  return {std::move(name), std::move(title), std::move(about), keys.describe()};
}

// "number, 1 to 256"
std::string type_of(const KeyReference& key, std::string_view quote) {
  std::string text = key.type;
  std::string choices;
  for (const std::string& choice : key.choices)
    choices += (choices.empty() ? "" : ", ") + std::string(quote) + choice + std::string(quote);
  if (!choices.empty()) text = choices;
  return key.allowed.empty() ? text : text + ", " + key.allowed;
}

// As text for people, without quotes.
std::string default_of(const KeyReference& key) {
  if (!key.initial) return {};
  const auto* text = key.initial->as<std::string>();
  return text != nullptr ? *text : to_toml(*key.initial);
}

std::string without(std::string text, std::string_view mark) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
    text.erase(at, mark.size());
  return text;
}

std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

std::string markdown_row(const KeyReference& key) {
  std::string initial = "none";
  if (key.is_required)
    initial = "required";
  else if (key.initial)
    initial = "`" + default_of(key) + "`";
  else if (!key.otherwise.empty())
    initial = key.otherwise;
  std::string meaning = key.help;
  if (!key.only_for.empty()) meaning = "Only for " + key.only_for + ". " + meaning;
  if (!key.page.empty()) meaning += " See [" + key.page + "](" + key.page + ").";
  return "| `" + key.key + "` | " + type_of(key, "`") + " | " + cell(initial) + " | " +
         cell(meaning) + " |\n";
}

// Adds the text in lines with the prefix `indent`.
void add_wrapped(std::string& out, const std::string& text, const std::string& indent,
                 std::size_t width) {
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  if (!line.empty()) out += indent + line + "\n";
}

}  // namespace

std::vector<TableReference> table_references() {
  const FindStore no_store = [] { return nullptr; };
  StoreConfig sqlite, postgres, broker;
  RelayConfig relay;
  TableConfig table;
  ConsumerConfig consumer;
  HandlerConfig handler;
  GatewayConfig gateway;
  HttpConfig http;
  AlertsConfig alerts;
  RetentionConfig retention;
  LogConfig log;
  return {
      reference_of("sqlite", "[store.NAME], a SQLite database",
                   "A store is a database or a broker. Each has its own table.",
                   [&](Settings& keys) { declare_sqlite(sqlite, "", keys); }),
      reference_of("postgres", "[store.NAME], a PostgreSQL database",
                   "A password in the url is an error.",
                   [&](Settings& keys) { declare_postgres(postgres, "", keys); }),
      reference_of(
          "broker", "[store.NAME], a broker",
          "The scheme of the url chooses the broker. [BROKERS.md](BROKERS.md) has examples.",
          [&](Settings& keys) { declare_broker(broker, "", keys); }),
      reference_of("relay", "[[relay]]", "One for each path from one store to another.",
                   [&](Settings& keys) { declare_relay(relay, no_store, keys); }),
      reference_of("table", "[relay.table], [consumer.table]",
                   "The relay serves this table, which exists already, instead of "
                   "`dovetail.outbox`. Only one relay serves a table, because two would take rows "
                   "from each other. A relay's name stays bound to what the relay served first. "
                   "[MAPPED.md](MAPPED.md) has the presets, an example and the guarantees.",
                   [&](Settings& keys) { declare_table(table, keys); }),
      reference_of(
          "consumer", "[[consumer]]",
          "One for each path from a store to its handlers. Each handler handles each event "
          "once. The inbox, a table of the store `to`, remembers which events it has "
          "handled. [INBOX.md](INBOX.md) has an example, and says what \"once\" means.",
          [&](Settings& keys) { declare_consumer(consumer, no_store, keys); }),
      reference_of(
          "handler", "[[consumer.handler]]",
          "What a consumer does with an event, one or more. The keys that a kind needs are "
          "required for that kind only.",
          [&](Settings& keys) { declare_handler(handler, keys); }),
      reference_of(
          "gateway", "[gateway]",
          "For `dovetail gateway`. [IDEMPOTENCY.md](IDEMPOTENCY.md) explains how these keys "
          "work together.",
          [&](Settings& keys) { declare_gateway(gateway, "", keys); }),
      reference_of("retention", "[retention]",
                   "For `dovetail prune` and for the daemon, which prunes by itself. Without it "
                   "everything is kept.",
                   [&](Settings& keys) { declare_retention(retention, keys); }),
      reference_of("http", "[http]",
                   "`dovetail run` answers here: health, metrics and the dashboard. Without this "
                   "table it listens nowhere. [MONITOR.md](MONITOR.md) says what is there.",
                   [&](Settings& keys) { declare_http(http, "", keys); }),
      reference_of("alerts", "[alerts]",
                   "What `dovetail status`, `/readyz` and the posts of `dovetail run` take for a "
                   "problem. [MONITOR.md](MONITOR.md#alerts) has an example.",
                   [&](Settings& keys) { declare_alerts(alerts, keys); }),
      reference_of("log", "[log]", "For `dovetail run` and `dovetail gateway`.",
                   [&](Settings& keys) { declare_log(log, keys); })};
}

std::string to_markdown(const std::vector<TableReference>& tables) {
  std::string page =
      "# The config file\n\n"
      "After reading this page you can write every key of the config file. `dovetail config` "
      "prints "
      "this page:\ndo not edit it. `dovetail config TABLE` explains one table in the terminal, and "
      "`dovetail config --json`\ntells an editor all of it.\n\n"
      "A duration is " +
      std::string(kDurationForm) + ".\nA size is " + std::string(kSizeForm) +
      ".\nA file is a path relative to the config file. An unknown key is an error. So is a key "
      "that was renamed: the error\nsays the new name.\n\n"
      "In a text, `${NAME}` is a variable of the environment; `$${` is the text `${`. Every "
      "command "
      "that reads the file\nneeds the variables in it. For a secret use `password_env` or "
      "`password_file`: only commands that use the store read\nthem.\n";
  for (const TableReference& table : tables) {
    page += "\n## " + table.title + "\n\n" + table.about + "\n\n";
    page += "| key | type | default | meaning |\n|---|---|---|---|\n";
    for (const KeyReference& key : table.keys) page += markdown_row(key);
  }
  return page;
}

std::string to_text(const TableReference& table, std::size_t width) {
  std::string text = table.title + "\n\n";
  add_wrapped(text, without(table.about, "`"), "", width);
  for (const KeyReference& key : table.keys) {
    text += "\n  " + key.key + "  (" + type_of(key, "");
    if (key.is_required)
      text += "; required";
    else if (key.initial)
      text += "; default " + default_of(key);
    else if (!key.otherwise.empty())
      text += "; default: " + without(key.otherwise, "`");
    text += ")\n";
    if (!key.only_for.empty()) add_wrapped(text, "Only for " + key.only_for + ".", "      ", width);
    std::string help = without(key.help, "`");
    if (!key.page.empty()) help += " See docs/" + key.page + ".";
    add_wrapped(text, help, "      ", width);
  }
  return text;
}

}  // namespace dovetail::config
