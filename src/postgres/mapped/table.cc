#include "postgres/mapped/table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/ascii.h"
#include "dovetail/event.h"

namespace dovetail::postgres {

namespace {

constexpr std::size_t kNameBytesMax = 63;  // PostgreSQL's limit for a name
constexpr std::size_t kTextBytesMax = 255;

TableMapping status_layout() {
  TableMapping mapping;
  mapping.table = "outbox_events";
  mapping.aggregate_type = "aggregate_type";
  mapping.aggregate_id = "aggregate_id";
  mapping.type = "event_type";
  mapping.created_at = "created_at";
  mapping.pending = {{"status", {"PENDING"}}};
  mapping.when_delivered = {{"status", Assignment::Value::text, "SENT"},
                            {"sent_at", Assignment::Value::now}};
  mapping.when_parked = {{"status", Assignment::Value::text, "FAILED"}};
  mapping.when_discarded = mapping.when_parked;
  return mapping;
}

TableMapping sent_at_layout() {
  TableMapping mapping;
  mapping.table = "outbox_events";
  mapping.type = "event_type";
  mapping.pending = {{"sent_at", {}}};
  mapping.when_delivered = {{"sent_at", Assignment::Value::now}};
  // The table has no other mark for "never send this".
  mapping.when_discarded = mapping.when_delivered;
  return mapping;
}

TableMapping message_layout() {
  TableMapping mapping;
  mapping.table = "OutboxMessage";
  mapping.id = "Id";
  mapping.topic = "Destination";
  mapping.type = "MessageType";
  mapping.payload = "Payload";
  mapping.created_at = "OccurredOn";
  mapping.header_columns = {{"CorrelationId", "correlation-id"}};
  mapping.pending = {{"ProcessedOn", {}}};
  mapping.when_delivered = {{"ProcessedOn", Assignment::Value::now},
                            {"Error", Assignment::Value::null}};
  mapping.when_parked = {{"RetryCount", Assignment::Value::attempts},
                         {"Error", Assignment::Value::reason}};
  mapping.when_discarded = {{"ProcessedOn", Assignment::Value::now},
                            {"Error", Assignment::Value::reason}};
  return mapping;
}

TableMapping processed_at_layout() {
  TableMapping mapping;
  mapping.table = "outbox";
  mapping.aggregate_type = "aggregate_type";
  mapping.aggregate_id = "aggregate_id";
  mapping.type = "event_type";
  mapping.created_at = "created_at";
  mapping.pending = {{"status", {"pending"}}};
  mapping.when_delivered = {{"status", Assignment::Value::text, "processed"},
                            {"processed_at", Assignment::Value::now}};
  mapping.when_parked = {{"status", Assignment::Value::text, "failed"}};
  mapping.when_discarded = mapping.when_parked;
  return mapping;
}

TableMapping debezium_layout() {
  TableMapping mapping;
  mapping.table = "outbox";
  mapping.aggregate_type = "aggregatetype";
  mapping.aggregate_id = "aggregateid";
  mapping.type = "type";
  mapping.delete_when_done = true;
  return mapping;
}

constexpr std::array<std::pair<std::string_view, TableMapping (*)()>, 5> kPresets = {{
    {"status", status_layout},
    {"sent_at", sent_at_layout},
    {"message", message_layout},
    {"processed_at", processed_at_layout},
    {"debezium", debezium_layout},
}};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string shown(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 60))
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return result;
}

Status check_name(std::string_view setting, std::string_view name) {
  if (is_allowed_name(name)) return {};
  return fail(Errc::rejected, "the mapping's " + std::string(setting) + " \"" + shown(name) +
                                  "\" is not a valid name; use a letter or \"_\", then letters, "
                                  "digits, \"_\" and \"$\", 63 at most, without quotes");
}

Status check_optional(std::string_view setting, std::string_view name) {
  return name.empty() ? Status{} : check_name(setting, name);
}

Status check_text(std::string_view setting, std::string_view text) {
  if (text.size() <= kTextBytesMax && text.find('\0') == std::string_view::npos) return {};
  return fail(Errc::rejected, "the mapping's " + std::string(setting) +
                                  " is too long or contains a NUL; check its value");
}

Status check_assignments(std::string_view setting, const std::vector<Assignment>& assignments,
                         bool parked) {
  for (auto each = assignments.begin(); each != assignments.end(); ++each) {
    DOVETAIL_TRY(check_name(setting, each->column));
    DOVETAIL_TRY(check_text(setting, each->literal));
    if (!parked &&
        (each->value == Assignment::Value::reason || each->value == Assignment::Value::attempts))
      return fail(Errc::rejected, "the mapping's " + std::string(setting) +
                                      " uses the reason or the attempts of an event that did "
                                      "not fail; remove them");
    if (std::any_of(assignments.begin(), each,
                    [&](const Assignment& other) { return other.column == each->column; }))
      return fail(Errc::rejected, "the mapping's " + std::string(setting) + " sets the column \"" +
                                      each->column + "\" twice; remove one of them");
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Removes single quotes around a text; a quote inside is doubled.
bool unquote(std::string_view text, std::string& out) {
  if (text.size() < 2 || text.front() != '\'' || text.back() != '\'') return false;
  text = text.substr(1, text.size() - 2);
  out.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\'') {
      ++i;
      if (i == text.size() || text[i] != '\'') return false;
    }
    out += text[i];
  }
  return true;
}

// Characters allowed in a value without quotes: enough for words, numbers and times, but not for an
// SQL expression.
bool is_plain_value(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || static_cast<unsigned char>(c) >= 0x80 ||
           std::string_view("-+.:/@#").find(c) != std::string_view::npos;
  });
}

Error not_a_value(std::string_view value, std::string_view text) {
  return Error{
      Errc::rejected,
      "\"" + shown(value) + "\" in \"" + shown(text) +
          "\" is not a plain value, and SQL is not allowed here; write a text with spaces or "
          "signs in single quotes, and each condition as its own item"};
}

// The end of the first value: at a bar outside quotes, or at the end of the text.
std::size_t end_of_value(std::string_view list) {
  bool is_quoted = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '\'') is_quoted = !is_quoted;
    if (list[i] == '|' && !is_quoted) return i;
  }
  return std::string_view::npos;
}

Error not_understood(std::string_view what, std::string_view text, std::string_view forms) {
  return Error{Errc::rejected, std::string(what) + " \"" + shown(text) +
                                   "\" is malformed; write it as " + std::string(forms)};
}

// Whether these assignments make the row fail a condition of "pending".
bool ends_pending(const TableMapping& mapping, const std::vector<Assignment>& assignments) {
  for (const PendingCondition& condition : mapping.pending) {
    for (const Assignment& each : assignments) {
      if (each.column != condition.column) continue;
      const bool listed = std::find(condition.values.begin(), condition.values.end(),
                                    each.literal) != condition.values.end();
      if (condition.values.empty() ? each.value != Assignment::Value::null
                                   : each.value != Assignment::Value::text || !listed)
        return true;
    }
  }
  return false;
}

Status check_unmarked(const TableMapping& mapping) {
  if (!mapping.publication.empty()) DOVETAIL_TRY(check_name("publication", mapping.publication));
  if (mapping.pending.empty() && mapping.when_delivered.empty() && mapping.when_parked.empty() &&
      mapping.when_discarded.empty() && !mapping.delete_when_done)
    return {};
  return fail(Errc::rejected,
              "a table that is read from the WAL is never written to, and every row is an event; "
              "remove pending, when_delivered, when_parked, when_discarded and "
              "delete_when_done, or read the table itself (mode = \"poll\")");
}

// Otherwise rows would be sent again and again.
Status check_progress(const TableMapping& mapping) {
  if (mapping.from_wal) return check_unmarked(mapping);
  if (mapping.delete_when_done) return {};
  if (!ends_pending(mapping, mapping.when_delivered))
    return fail(Errc::rejected,
                "the mapping's when_delivered leaves a sent row pending; set a "
                "column of the pending condition there, or set delete_when_done");
  if (!mapping.when_discarded.empty() && !ends_pending(mapping, mapping.when_discarded))
    return fail(Errc::rejected,
                "the mapping's when_discarded leaves a discarded row pending; set a column "
                "of the pending condition there");
  return {};
}

// Checks the columns of the event itself.
Status check_columns(const TableMapping& mapping) {
  using enum sql::MappedColumn::Kind;
  for (const sql::MappedColumn& column : sql::kMappedColumns) {
    const std::string& name = mapping.*column.value;
    if (column.kind == required) DOVETAIL_TRY(check_name(column.key, name));
    if (column.kind == optional) DOVETAIL_TRY(check_optional(column.key, name));
  }
  for (const HeaderColumn& header : mapping.header_columns) {
    DOVETAIL_TRY(check_name("header_columns", header.column));
    const Header named{header.header, ""};
    if (const Result<std::string> encoded = encode_headers({&named, 1}); !encoded)
      return fail(Errc::rejected, "the mapping's header_columns: " + encoded.error().text);
  }
  return {};
}

}  // namespace

Result<TableMapping> mapping_preset(std::string_view name, std::string_view table) {
  for (const auto& [known, make] : kPresets) {
    if (known != name) continue;
    TableMapping mapping = make();
    if (!table.empty()) mapping.table = std::string(table);
    return mapping;
  }
  std::string known;
  for (const auto& [preset, make] : kPresets)
    known += (known.empty() ? "" : ", ") + std::string(preset);
  return fail(Errc::rejected,
              "a mapped table has no preset \"" + shown(name) + "\"; choose one of " + known);
}

std::vector<std::string_view> mapping_presets() {
  std::vector<std::string_view> names;
  for (const auto& [name, make] : kPresets) names.push_back(name);
  return names;
}

Result<PendingCondition> parse_pending(std::string_view text) {
  constexpr std::string_view kForms = "\"column is null\", \"column = VALUE\" or \"column = A|B\"";
  const std::string_view all = trimmed(text);
  PendingCondition condition;
  const std::size_t equals = all.find('=');
  if (equals == std::string_view::npos) {
    const std::string folded = to_lower(all);
    constexpr std::string_view kIsNull = " is null";
    if (!folded.ends_with(kIsNull)) return fail(not_understood("the condition", text, kForms));
    condition.column = std::string(trimmed(all.substr(0, all.size() - kIsNull.size())));
  } else {
    condition.column = std::string(trimmed(all.substr(0, equals)));
    std::string_view rest = all.substr(equals + 1);
    while (true) {
      const std::size_t bar = end_of_value(rest);
      const std::string_view piece = trimmed(rest.substr(0, bar));
      std::string value;
      if (piece.empty()) return fail(not_understood("the condition", text, kForms));
      if (!unquote(piece, value)) {
        if (!is_plain_value(piece)) return fail(not_a_value(piece, text));
        value = std::string(piece);
      }
      condition.values.push_back(std::move(value));
      if (bar == std::string_view::npos) break;
      rest.remove_prefix(bar + 1);
    }
  }
  DOVETAIL_TRY(check_name("pending", condition.column));
  for (const std::string& value : condition.values) DOVETAIL_TRY(check_text("pending", value));
  return condition;
}

Result<Assignment> parse_assignment(std::string_view text) {
  constexpr std::string_view kForms =
      "\"column = VALUE\", \"column = now()\", \"column = null\", \"column = reason()\" or "
      "\"column = attempts()\"";
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return fail(not_understood("the setting", text, kForms));
  Assignment assignment;
  assignment.column = std::string(trimmed(text.substr(0, equals)));
  const std::string_view value = trimmed(text.substr(equals + 1));
  if (value.empty()) return fail(not_understood("the setting", text, kForms));
  const std::string folded = to_lower(value);
  if (folded == "now()") {
    assignment.value = Assignment::Value::now;
  } else if (folded == "null") {
    assignment.value = Assignment::Value::null;
  } else if (folded == "reason()") {
    assignment.value = Assignment::Value::reason;
  } else if (folded == "attempts()") {
    assignment.value = Assignment::Value::attempts;
  } else if (!unquote(value, assignment.literal)) {
    if (!is_plain_value(value)) return fail(not_a_value(value, text));
    assignment.literal = std::string(value);
  }
  DOVETAIL_TRY(check_name("column", assignment.column));
  DOVETAIL_TRY(check_text("value", assignment.literal));
  return assignment;
}

bool is_allowed_name(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax || !is_letter(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter(c) || is_digit(c) || c == '$'; });
}

Status check_mapping(const TableMapping& mapping) {
  const std::size_t dot = mapping.table.find('.');
  if (dot == std::string::npos) {
    DOVETAIL_TRY(check_name("table", mapping.table));
  } else {
    DOVETAIL_TRY(check_name("schema", std::string_view(mapping.table).substr(0, dot)));
    DOVETAIL_TRY(check_name("table", std::string_view(mapping.table).substr(dot + 1)));
  }
  DOVETAIL_TRY(check_columns(mapping));
  DOVETAIL_TRY(check_text("default_aggregate_type", mapping.default_aggregate_type));
  DOVETAIL_TRY(check_text("default_type", mapping.default_type));
  DOVETAIL_TRY(check_text("default_content_type", mapping.default_content_type));
  if (mapping.type.empty() && mapping.default_type.empty())
    return fail(
        Errc::rejected,
        "the mapping has neither a column for the type nor a default_type; set one of them");
  for (const PendingCondition& condition : mapping.pending) {
    DOVETAIL_TRY(check_name("pending", condition.column));
    for (const std::string& value : condition.values) DOVETAIL_TRY(check_text("pending", value));
  }
  DOVETAIL_TRY(check_assignments("when_delivered", mapping.when_delivered, false));
  DOVETAIL_TRY(check_assignments("when_parked", mapping.when_parked, true));
  DOVETAIL_TRY(check_assignments("when_discarded", mapping.when_discarded, true));
  return check_progress(mapping);
}

}  // namespace dovetail::postgres
