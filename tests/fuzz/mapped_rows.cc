// Rows of a foreign table in the WAL: each becomes an event or an error, and other programs can
// still read its headers.
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "postgres/mapped/event.h"
#include "postgres/mapped/rows.h"
#include "postgres/testing/test_pgoutput.h"

using namespace dovetail;
using namespace dovetail::postgres;

namespace {

const std::vector<std::pair<std::string, std::string>> kColumns{
    {"id", "uuid"},     {"kind", "text"},      {"entity", "text"},  {"payload", "jsonb"},
    {"extra", "jsonb"}, {"at", "timestamptz"}, {"version", "int8"}, {"trace", "text"}};

TableMapping mapping() {
  TableMapping mapping;
  mapping.table = "orders_outbox";
  mapping.id = "id";
  mapping.payload = "payload";
  mapping.type = "kind";
  mapping.aggregate_id = "entity";
  mapping.aggregate_version = "version";
  mapping.headers = "extra";
  mapping.created_at = "at";
  mapping.from_wal = true;
  mapping.header_columns = {{"trace", "trace-id"}};
  return mapping;
}

CatalogTable table() {
  CatalogTable table;
  table.oid = 42;
  table.schema = "public";
  table.name = "orders_outbox";
  for (const auto& [name, type] : kColumns) table.columns[name] = {name, type, type};
  return table;
}

}  // namespace

// The values of a row, each after its size in one byte; 255: null, 254: unchanged.
void check_input(std::string_view input) {
  using Form = pgoutput::Value::Form;
  FUZZ_REQUIRE(flat_headers(input).size() <= 8 * input.size() + 8);
  (void)join_headers(input, {{"a", "b"}});
  (void)mapped_event_id("public", "t", input);
  const bool binary = !input.empty() && (input.front() & 1) != 0;
  if (!input.empty()) input.remove_prefix(1);
  std::vector<pgoutput::Value> values;
  std::vector<std::string> kept(kColumns.size());
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const std::size_t size = input.empty() ? 255 : static_cast<unsigned char>(input.front());
    if (!input.empty()) input.remove_prefix(1);
    if (size >= 254) {
      values.push_back({size == 255 ? Form::null : Form::unchanged, ""});
      continue;
    }
    kept[i] = input.substr(0, size);
    input.remove_prefix(std::min(size, input.size()));
    values.push_back({binary ? Form::binary : Form::text, kept[i]});
  }
  static const TableMapping kMapping = mapping();
  static const CatalogTable kTable = table();
  std::int64_t last_position = 0;
  const auto rows = mapped_rows(kTable, kMapping, last_position);
  std::vector<std::string> names;
  for (const auto& [name, type] : kColumns) names.push_back(name);
  const std::string relation = relation_bytes(42, "public", "orders_outbox", names);
  std::vector<pgoutput::Value> none;
  const auto decoded = pgoutput::decode(relation, none);
  FUZZ_REQUIRE(decoded.has_value());
  const Status described = rows->describe(std::get<pgoutput::Relation>(*decoded));
  if (!described) return;
  Batch batch;
  const Status appended = rows->append(42, values, pgoutput::Begin{}, batch);
  FUZZ_REQUIRE(appended ? batch.size() <= 1 : !appended.error().text.empty());
  for (const Event& event : batch.events())
    FUZZ_REQUIRE(!event.defect.empty() ||
                 event.key_hash == key_hash(event.aggregate_type, event.aggregate_id));
}

std::vector<std::string_view> seed_inputs() {
  using namespace std::string_literals;
  static const std::vector<std::string> kept = [] {
    const auto row = [](char form, const std::vector<std::string>& values) {
      std::string out(1, form);
      for (const std::string& value : values) out += static_cast<char>(value.size()) + value;
      return out;
    };
    return std::vector<std::string>{
        row(0, {"01890a5d-ac96-774b-bcce-b302099a8057", "placed", "17", R"({"total": 3})",
                R"({"a": "b", "n": 1, "x": null})", "2023-11-14 22:13:20.123456+00", "7", "t-1"}),
        row(1, {"0123456789abcdef", "placed", "17", "\1{}", "\1{\"a\":\"b\"}", "\0\0\0\0\0\0\0\1"s,
                "\0\0\0\0\0\0\0\7"s, "t"}),
        row(0, {"not-a-uuid", "", "", "", "[1]", "yesterday", "many", ""}),
        "\0\xff\xff\xff\xff\xff\xff\xff\xff"s, R"({"a": {"b": [1, 2]}, "c": "d\"e"})"};
  }();
  return {kept.begin(), kept.end()};
}
