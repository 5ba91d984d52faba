#include "postgres/mapped/rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/event/name_id.h"
#include "core/event/sha256.h"
#include "postgres/mapped/event.h"
#include "postgres/stream/values.h"

namespace dovetail::postgres {

namespace {

using pgoutput::Begin;
using pgoutput::Value;

// How to get the text of a value from its bytes.
enum class Kind : std::uint8_t {
  text,       // the bytes are the text, in both forms
  padded,     // the same, but trailing spaces do not count
  boolean,    //
  integer,    //
  uuid,       //
  jsonb,      // binary: after a version byte
  bytea,      //
  timestamp,  // without zone, read as UTC; only as a time
  timestamptz,
  other,  // only the text form is known
};

// By the short name of the base type.
Kind kind_of(const CatalogColumn& column) {
  static const std::map<std::string_view, Kind> kinds = {
      {"text", Kind::text},           {"varchar", Kind::text},
      {"name", Kind::text},           {"json", Kind::text},
      {"bpchar", Kind::padded},       {"bool", Kind::boolean},
      {"int2", Kind::integer},        {"int4", Kind::integer},
      {"int8", Kind::integer},        {"uuid", Kind::uuid},
      {"jsonb", Kind::jsonb},         {"bytea", Kind::bytea},
      {"timestamp", Kind::timestamp}, {"timestamptz", Kind::timestamptz}};
  if (column.is_enum) return Kind::text;
  const auto found = kinds.find(column.base);
  return found == kinds.end() ? Kind::other : found->second;
}

// Whether the text can be derived from the binary form.
bool has_known_text(Kind kind) {
  return kind != Kind::other && kind != Kind::timestamp && kind != Kind::timestamptz;
}

std::string_view into(Arena& arena, std::string_view text) { return arena.copy(text); }

// The text of the server's cast, in the arena; nullopt: the value cannot be read.
std::optional<std::string_view> cast_to_text(Kind kind, const Value& value, Arena& arena) {
  std::string_view bytes = value.bytes;
  const bool is_binary = value.form == Value::Form::binary;
  if (!is_binary && value.form != Value::Form::text) return std::nullopt;
  switch (kind) {
    case Kind::padded:
      while (bytes.ends_with(' ')) bytes.remove_suffix(1);
      return into(arena, bytes);
    case Kind::boolean:
      if (bytes.size() != 1) return std::nullopt;
      return into(arena, bytes[0] == 't' || bytes[0] == 1 ? "true" : "false");
    case Kind::integer: {
      const std::optional<std::int64_t> number = integer_of(value);
      if (!number) return std::nullopt;
      return into(arena, std::to_string(*number));
    }
    case Kind::uuid: {
      const std::optional<EventId> id = uuid_of(value);
      if (!id) return std::nullopt;
      return into(arena, id->to_string());
    }
    case Kind::jsonb:
      if (!is_binary) return into(arena, bytes);
      if (bytes.empty() || bytes[0] != 1) return std::nullopt;
      return into(arena, bytes.substr(1));
    case Kind::bytea: {
      if (!is_binary) return into(arena, bytes);
      return into(arena, "\\x" + to_hex(bytes));
    }
    case Kind::text:
      return into(arena, bytes);
    case Kind::timestamp:
    case Kind::timestamptz:
    case Kind::other:
      break;
  }
  if (is_binary) return std::nullopt;
  return into(arena, bytes);
}

std::optional<WallTime> cast_to_time(Kind kind, const Value& value) {
  if (kind == Kind::timestamptz || value.form != Value::Form::text) return time_of(value);
  const std::string with_zone = std::string(value.bytes) + "+00";
  return time_of(Value{Value::Form::text, with_zone});
}

// The index of a mapped column in the rows of one relation.
struct Place {
  std::size_t at = 0;
  Kind kind = Kind::text;
  bool exists = false;  // false: the mapping has no such column
};

struct Layout {
  std::size_t columns = 0;
  Place id, topic, aggregate_type, aggregate_id, version, type, payload, content_type, headers,
      created_at;
  std::vector<Place> header_columns{};
};

class MappedRows final : public WalRows {
 public:
  MappedRows(const CatalogTable& table, const TableMapping& mapping, std::int64_t& last_position)
      : table_(table),
        mapping_(mapping),
        aggregate_type_(default_aggregate_type(table, mapping)),
        content_type_(default_content_type(table, mapping)),
        last_position_(last_position) {}

  Status describe(const pgoutput::Relation& relation) override {
    layouts_.erase(relation.id);
    if (!is_ours(relation)) return {};
    Layout layout;
    layout.columns = relation.columns.size();
    const std::pair<Place*, const std::string*> wanted[] = {
        {&layout.id, &mapping_.id},
        {&layout.topic, &mapping_.topic},
        {&layout.aggregate_type, &mapping_.aggregate_type},
        {&layout.aggregate_id, &mapping_.aggregate_id},
        {&layout.version, &mapping_.aggregate_version},
        {&layout.type, &mapping_.type},
        {&layout.payload, &mapping_.payload},
        {&layout.content_type, &mapping_.content_type},
        {&layout.headers, &mapping_.headers},
        {&layout.created_at, &mapping_.created_at}};
    for (const auto& [place, name] : wanted) DOVETAIL_TRY(find(relation, *name, *place));
    for (const HeaderColumn& header : mapping_.header_columns)
      DOVETAIL_TRY(find(relation, header.column, layout.header_columns.emplace_back()));
    layouts_.insert_or_assign(relation.id, std::move(layout));
    return {};
  }

  Status append(std::uint32_t relation, std::span<const Value> values, const Begin& transaction,
                Batch& out) override {
    const auto found = layouts_.find(relation);
    if (found == layouts_.end()) return {};
    if (found->second.columns != values.size())
      return fail(Errc::corrupt,
                  "the server sent a row that does not match its description of the table; check "
                  "that it is "
                  "PostgreSQL and that its slot uses pgoutput");
    if (transaction.commit != counted_in_) rows_in_transaction_ = 0;
    counted_in_ = transaction.commit;
    ++rows_in_transaction_;
    add(found->second, values, transaction, out);
    return {};
  }

 private:
  // By oid, so a renamed table is still the same; and by name, so a table that was created again
  // is, too.
  bool is_ours(const pgoutput::Relation& relation) const {
    return table_.oid == relation.id || table_.partitions.contains(relation.id) ||
           (table_.schema == relation.schema && table_.name == relation.name);
  }

  Status find(const pgoutput::Relation& relation, const std::string& name, Place& place) const {
    if (name.empty()) return {};
    const CatalogColumn& wanted = table_.column(name);
    const auto found = std::find_if(relation.columns.begin(), relation.columns.end(),
                                    [&](const auto& column) { return column.name == wanted.name; });
    if (found == relation.columns.end())
      return fail(Errc::rejected,
                  "the WAL has no column \"" + wanted.name + "\" of " + table_.quoted +
                      "; check that the publication has no list of columns, and whether the column "
                      "was renamed or added since those rows were written");
    place = {static_cast<std::size_t>(found - relation.columns.begin()), kind_of(wanted), true};
    return {};
  }

  // One row on its way to an event.
  struct Reading {
    std::span<const Value> values;
    Arena& arena;
    std::string unreadable{};  // the setting of the first unreadable column

    const Value* value(const Place& place) const {
      if (!place.exists || values[place.at].form == Value::Form::null) return nullptr;
      return &values[place.at];
    }
    std::string_view text(std::string_view setting, const Place& place,
                          std::string_view otherwise) {
      const Value* const stored = value(place);
      if (stored == nullptr) return arena.copy(otherwise);
      const std::optional<std::string_view> read = cast_to_text(place.kind, *stored, arena);
      if (!read) note(setting);
      return read && !read->empty() ? *read : arena.copy(otherwise);
    }
    void note(std::string_view setting) {
      if (unreadable.empty()) unreadable = setting;
    }
  };

  void add(const Layout& layout, std::span<const Value> values, const Begin& transaction,
           Batch& out) {
    Reading row{values, out.arena()};
    Event event;
    event.id = id_of(layout.id, transaction, row);
    event.position = last_position_ =
        std::max(last_position_ + 1, static_cast<std::int64_t>(transaction.commit.value));
    event.topic = row.text("topic", layout.topic, "");
    event.aggregate_type = row.text("aggregate_type", layout.aggregate_type, aggregate_type_);
    event.aggregate_id = row.text("aggregate_id", layout.aggregate_id, "");
    event.type = row.text("type", layout.type, mapping_.default_type);
    event.content_type = row.text("content_type", layout.content_type, content_type_);
    event.headers = headers_of(layout, row);
    event.payload = payload_of(layout.payload, row);
    if (const Value* const version = row.value(layout.version)) {
      const std::optional<std::int64_t> number = integer_of(*version);
      if (!number) row.note("aggregate_version");
      event.aggregate_version = number.value_or(0);
    }
    // A time is for people and for ages: another date style is no reason to park.
    event.created_at = transaction.committed_at;
    if (const Value* const time = row.value(layout.created_at))
      event.created_at =
          cast_to_time(layout.created_at.kind, *time).value_or(transaction.committed_at);
    if (!row.unreadable.empty())
      event.defect = out.arena().copy("the column of the mapping's " + row.unreadable +
                                      " has an unreadable value in the WAL; check its type");
    out.adopt(event);
  }

  EventId id_of(const Place& place, const Begin& transaction, Reading& row) const {
    const Value* const value = row.value(place);
    const std::optional<EventId> own =
        value != nullptr && place.kind == Kind::uuid ? uuid_of(*value) : std::nullopt;
    if (own) return *own;
    const std::optional<std::string_view> text = value != nullptr && place.kind != Kind::uuid
                                                     ? cast_to_text(place.kind, *value, row.arena)
                                                     : std::nullopt;
    if (!text) {
      row.note("id");
      // The same at each read of this part of the WAL.
      return name_id(kMessageNames, "postgres/mapped/" + to_string(transaction.commit) + '/' +
                                        std::to_string(rows_in_transaction_));
    }
    if (const Result<EventId> parsed = EventId::parse(*text); parsed && place.kind != Kind::integer)
      return *parsed;
    return mapped_event_id(table_.schema, table_.name, *text);
  }

  std::string_view headers_of(const Layout& layout, Reading& row) const {
    std::string stored(row.text("headers", layout.headers, ""));
    if (layout.headers.kind == Kind::jsonb) stored = flat_headers(stored);
    std::vector<Header> columns;
    for (std::size_t i = 0; i < layout.header_columns.size(); ++i) {
      const Place& place = layout.header_columns[i];
      if (row.value(place) == nullptr) continue;
      columns.push_back(
          {mapping_.header_columns[i].header, std::string(row.text("header_columns", place, ""))});
    }
    return row.arena.copy(join_headers(stored, std::move(columns)));
  }

  static std::string_view payload_of(const Place& place, Reading& row) {
    const Value* const value = row.value(place);
    if (value == nullptr) return {};
    if (place.kind != Kind::bytea) return row.text("payload", place, "");
    const std::optional<std::string_view> bytes = bytea_of(*value, row.arena);
    if (!bytes) row.note("payload");
    const bool is_copied = value->form == Value::Form::text;
    return is_copied ? bytes.value_or("") : row.arena.copy(bytes.value_or(""));
  }

  CatalogTable table_;
  TableMapping mapping_;
  std::string aggregate_type_;
  std::string content_type_;
  std::int64_t& last_position_;
  std::map<std::uint32_t, Layout> layouts_{};
  WalPosition counted_in_{};
  std::uint64_t rows_in_transaction_ = 0;
};

}  // namespace

std::unique_ptr<WalRows> mapped_rows(const CatalogTable& table, const TableMapping& mapping,
                                     std::int64_t& last_position) {
  return std::make_unique<MappedRows>(table, mapping, last_position);
}

bool can_be_binary(const CatalogTable& table, const TableMapping& mapping) {
  const auto is_known = [&](const std::string& name) {
    return name.empty() || has_known_text(kind_of(table.column(name)));
  };
  return is_known(mapping.id) && is_known(mapping.topic) && is_known(mapping.aggregate_type) &&
         is_known(mapping.aggregate_id) && is_known(mapping.type) &&
         is_known(mapping.content_type) && is_known(mapping.headers) &&
         std::all_of(mapping.header_columns.begin(), mapping.header_columns.end(),
                     [&](const HeaderColumn& header) { return is_known(header.column); });
}

}  // namespace dovetail::postgres
