// [relay.table] and [consumer.table]: a table that exists already.
#include <string_view>
#include <utility>

#include "config/relay.h"
#include "config/tables.h"
#include "sql/mapped_columns.h"

namespace dovetail::config {
namespace {

struct Key {
  const char* name;
  const char* help;
  const char* otherwise;
};

constexpr Key kLists[] = {
    {"pending",
     "Which rows are still to be sent: a condition, or a list of conditions that must all hold: "
     "`\"status = NEW\"`, `\"status = NEW|AGAIN\"`, `\"sent_at is null\"`.",
     "every row"},
    {"when_delivered",
     "What the relay sets in a row that was delivered: `\"status = SENT\"`, `\"sent_at = now()\"`, "
     "`\"error = null\"`. Required, unless the preset has it.",
     "that of the preset"},
    {"when_parked",
     "The same for a row that was parked; also `\"error = reason()\"`, `\"tries = attempts()\"`.",
     "nothing"},
    {"when_discarded", "The same for a row that was discarded.", "as `when_delivered`"}};

TableConfig table_of(Section& section, std::string where) {
  TableConfig table;
  table.where = std::move(where);
  Settings keys;
  declare_table(table, keys);
  section.read(keys);
  std::erase_if(table.texts, [&](const auto& one) { return !section.has(one.first); });
  std::erase_if(table.lists, [&](const auto& one) { return !section.has(one.first); });
  section.table("header_columns", [&table](Section& headers) {
    Settings columns;
    headers.each([&](const std::string& header, const Value&) {
      columns.text(header, table.header_columns[header], "");
    });
    headers.read(columns);
  });
  if (table.preset.empty() && table.name.empty())
    section.wrong_here("needs \"preset\", or the \"name\" of a table that is mapped by hand");
  return table;
}

}  // namespace

void declare_table(TableConfig& table, Settings& keys) {
  keys.text(
          "preset", table.preset,
          "`status`, `sent_at`, `message`, `processed_at` or `debezium`. Every other key replaces "
          "a value of the preset.")
      .see("MAPPED.md");
  keys.text("name", table.name, "The table, `outbox_events` or `shop.outbox_events`.")
      .otherwise("that of the preset");
  for (const sql::MappedColumn& one : sql::kMappedColumns)
    keys.text_or_empty(one.key, table.texts[one.key], one.help).otherwise(one.otherwise);
  keys.table("header_columns", "Columns that become headers: `{ trace-id = \"trace\" }`.");
  for (const Key& key : kLists)
    keys.one_or_more_texts(key.name, table.lists[key.name], key.help).otherwise(key.otherwise);
  keys.renamed("when_sent", "when_delivered");
  keys.flag("delete_when_done", table.delete_when_done,
            "Deletes a row that was sent or parked, instead of marking it.")
      .otherwise("`false`");
}

std::optional<TableConfig> read_mapped_table(Section& section) {
  std::optional<TableConfig> table;
  section.table("table",
                [&](Section& mapped) { table = table_of(mapped, section.place("table")); });
  return table;
}

void add_mapped_table(std::optional<TableConfig> table, const RelayConfig& relay, Config& config) {
  if (table) {
    table->from_wal = relay.reading.mode == ReadMode::wal;
    table->slot = relay.slot;
    table->publication = relay.publication;
  }
  for (StoreConfig& store : config.stores) {
    if (table && store.name == relay.from) store.tables.emplace(relay.name, std::move(*table));
  }
}

}  // namespace dovetail::config
