#include "assembly/mapping.h"

#include <algorithm>
#include <utility>

namespace dovetail::assembly {
namespace {

using postgres::TableMapping;

// Replaces `out` by the value of the key, if the file has it.
template <class Item, class Parse>
Status read_list(const config::TableConfig& table, std::string_view key, std::vector<Item>& out,
                 Parse parse) {
  const auto found = table.lists.find(key);
  if (found == table.lists.end()) return {};
  out.clear();
  for (const std::string& text : found->second) {
    auto item = parse(text);
    if (!item) return fail(item.error().code, std::string(key) + ": " + item.error().text);
    out.push_back(std::move(*item));
  }
  return {};
}

Result<TableMapping> read_mapping(const config::TableConfig& table) {
  TableMapping mapping;
  mapping.table = table.name;
  if (!table.preset.empty()) {
    auto preset = postgres::mapping_preset(table.preset, table.name);
    if (!preset) return preset;
    mapping = std::move(*preset);
  }
  for (const sql::MappedColumn& column : sql::kMappedColumns)
    if (const auto found = table.texts.find(column.key); found != table.texts.end())
      mapping.*column.value = found->second;
  DOVETAIL_TRY(read_list(table, "pending", mapping.pending, postgres::parse_pending));
  DOVETAIL_TRY(
      read_list(table, "when_delivered", mapping.when_delivered, postgres::parse_assignment));
  DOVETAIL_TRY(read_list(table, "when_parked", mapping.when_parked, postgres::parse_assignment));
  DOVETAIL_TRY(
      read_list(table, "when_discarded", mapping.when_discarded, postgres::parse_assignment));
  if (!table.header_columns.empty()) mapping.header_columns.clear();
  for (const auto& [header, column] : table.header_columns)
    mapping.header_columns.push_back({column, header});
  // For a table read from the WAL, the preset's marks are dropped; marks written in the file are
  // refused.
  if (table.from_wal) mapping.delete_when_done = false;
  if (table.delete_when_done) mapping.delete_when_done = *table.delete_when_done;
  mapping.from_wal = table.from_wal;
  mapping.slot = table.slot;
  mapping.publication = table.publication;
  DOVETAIL_TRY(postgres::check_mapping(mapping));
  return mapping;
}

bool take_the_same_rows(const TableMapping& one, const TableMapping& other) {
  if (one.from_wal || other.from_wal)
    return false;  // a table without marks can have several
                   // readers
  return one.table == other.table &&
         std::equal(one.pending.begin(), one.pending.end(), other.pending.begin(),
                    other.pending.end(), [](const auto& a, const auto& b) {
                      return a.column == b.column && a.values == b.values;
                    });
}

}  // namespace

Result<TableMapping> mapping_of(const config::TableConfig& table) {
  auto mapping = read_mapping(table);
  if (!mapping) return fail(mapping.error().code, table.where + ": " + mapping.error().text);
  return mapping;
}

Result<postgres::MappedRelays> mapped_relays(const config::StoreConfig& store) {
  postgres::MappedRelays relays;
  for (const auto& [relay, table] : store.tables) {
    auto mapping = mapping_of(table);
    if (!mapping) return fail(mapping.error());
    for (const auto& [other, of_other] : relays) {
      if (take_the_same_rows(*mapping, of_other))
        return fail(Errc::rejected, table.where + ": the relay \"" + other +
                                        "\" serves the table " + mapping->table +
                                        " too, and each would take rows away from the other; let "
                                        "each have a column of its own that says what was sent");
    }
    relays.emplace(relay, std::move(*mapping));
  }
  return relays;
}

}  // namespace dovetail::assembly
