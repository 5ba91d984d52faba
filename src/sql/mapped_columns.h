// The columns of an application's own outbox table, declared once: what names them in the config
// file, and where their names are kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail::sql {

// An empty name means that there is no such column. A name is used as written; if it does not
// exist, in lower case, as PostgreSQL folds unquoted names.
struct MappedColumns {
  std::string id = "id";            // uuid, text or an integer, with a unique index
  std::string topic{};              // the topic; empty or null: the relay's template
  std::string aggregate_type{};     // empty: `default_aggregate_type`
  std::string aggregate_id{};       // empty, or null: no order is promised
  std::string aggregate_version{};  // an integer
  std::string type{};               // empty: `default_type`
  std::string payload = "payload";  // jsonb, json, text or bytea
  std::string content_type{};       // empty, or null: `default_content_type`
  std::string headers{};            // jsonb, json or text: one flat object
  std::string created_at{};         // timestamptz, or timestamp in UTC; empty: the time of reading
  std::string order_by{};           // empty: created_at, or the id if that is missing

  std::string default_aggregate_type{};  // empty: the table's name
  std::string default_type = "event";
  // Empty: application/json, or application/octet-stream for bytea.
  std::string default_content_type{};
};

struct MappedColumn {
  enum class Kind : std::uint8_t { required, optional, constant };
  const char* key;  // of the config file
  std::string MappedColumns::* value;
  Kind kind;
  const char* help;
  const char* otherwise;  // what it is if the key is missing, for people
};

inline constexpr MappedColumn kMappedColumns[] = {
    {"id", &MappedColumns::id, MappedColumn::Kind::required,
     "The column of the id: a uuid, a text or a number, with a unique index.", "`id`"},
    {"payload", &MappedColumns::payload, MappedColumn::Kind::required,
     "The column of the payload: `jsonb`, `json`, text or `bytea`.", "`payload`"},
    {"aggregate_type", &MappedColumns::aggregate_type, MappedColumn::Kind::optional,
     "The column of the key's type, such as `order`. Write `\"\"` where a preset has a column that "
     "the table does not have; this holds for every column.",
     "none"},
    {"aggregate_id", &MappedColumns::aggregate_id, MappedColumn::Kind::optional,
     "The column of the key. Without it there is no order.", "none"},
    {"aggregate_version", &MappedColumns::aggregate_version, MappedColumn::Kind::optional,
     "The column of the aggregate's version, a number that grows.", "none"},
    {"type", &MappedColumns::type, MappedColumn::Kind::optional,
     "The column of the event's type, such as `placed`.", "none"},
    {"topic", &MappedColumns::topic, MappedColumn::Kind::optional, "The column of the topic.",
     "none"},
    {"content_type", &MappedColumns::content_type, MappedColumn::Kind::optional,
     "The column of the payload's content type.", "none"},
    {"headers", &MappedColumns::headers, MappedColumn::Kind::optional,
     "The column of the headers, a JSON object.", "none"},
    {"created_at", &MappedColumns::created_at, MappedColumn::Kind::optional,
     "The column of the time at which the event was written.", "none"},
    {"order_by", &MappedColumns::order_by, MappedColumn::Kind::optional,
     "The column that orders events of one key.", "`created_at`, else `id`"},
    {"default_aggregate_type", &MappedColumns::default_aggregate_type, MappedColumn::Kind::constant,
     "The value where the column is missing or empty.", "the table's name"},
    {"default_type", &MappedColumns::default_type, MappedColumn::Kind::constant,
     "The value where the column is missing or empty.", "`event`"},
    {"default_content_type", &MappedColumns::default_content_type, MappedColumn::Kind::constant,
     "The value where the column is missing or empty.", "by the type of the payload"},
};

}  // namespace dovetail::sql
