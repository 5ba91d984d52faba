#include "postgres/mapped/event.h"

#include <algorithm>
#include <optional>

#include "core/event/headers.h"
#include "core/event/name_id.h"
#include "core/event/sha256.h"

namespace dovetail::postgres {

namespace {

// Walks over the text of a jsonb object, which the server has checked and writes in a fixed format.
// For one thread.
class ObjectScanner {
 public:
  explicit ObjectScanner(std::string_view text) : rest_(text) {}

  bool take(char wanted) {
    skip_space();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool is_at_end() {
    skip_space();
    return rest_.empty();
  }
  // With its quotes; empty: no text here.
  std::string_view text() {
    skip_space();
    return take_first(text_size(rest_));
  }
  // Any value, as written.
  std::string_view value() {
    skip_space();
    std::size_t depth = 0;
    std::size_t size = 0;
    while (size < rest_.size()) {
      const char c = rest_[size];
      if (depth == 0 && (c == ',' || c == '}')) break;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      const std::size_t more = c == '"' ? text_size(rest_.substr(size)) : 1;
      if (more == 0) return {};
      size += more;
    }
    std::string_view found = take_first(size);
    while (found.ends_with(' ')) found.remove_suffix(1);
    return found;
  }

 private:
  static std::size_t text_size(std::string_view text) {
    if (text.empty() || text.front() != '"') return 0;
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        return i + 1;
      }
    }
    return 0;
  }
  std::string_view take_first(std::size_t size) {
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  void skip_space() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

std::string quoted(std::string_view text) {
  std::string result(quoted_bytes(text), '\0');
  write_quoted(text, result.data());
  return result;
}

// nullopt: not an object.
std::optional<std::string> flattened(std::string_view json) {
  ObjectScanner scanner(json);
  if (!scanner.take('{')) return std::nullopt;
  std::string result;
  bool more = !scanner.take('}');
  while (more) {
    const std::string_view name = scanner.text();
    if (name.empty() || !scanner.take(':')) return std::nullopt;
    const std::string_view value = scanner.value();
    if (value.empty()) return std::nullopt;
    if (value != "null") {
      result += result.empty() ? "{" : ", ";
      result += name;
      result += ": ";
      result += value.front() == '"' ? std::string(value) : quoted(value);
    }
    more = scanner.take(',');
    if (!more && !scanner.take('}')) return std::nullopt;
  }
  if (!scanner.is_at_end()) return std::nullopt;
  return result.empty() ? result : result + "}";
}

}  // namespace

std::string flat_headers(std::string_view json) {
  std::optional<std::string> flat = flattened(json);
  return flat ? std::move(*flat) : std::string(json);
}

std::string join_headers(std::string_view stored, std::vector<Header> columns) {
  if (columns.empty()) return std::string(stored);
  std::vector<Header> headers;
  if (!stored.empty()) {
    Result<std::vector<Header>> decoded = decode_headers(stored);
    if (!decoded) return std::string(stored);
    headers = std::move(*decoded);
  }
  for (Header& column : columns) {
    std::replace_if(
        column.value.begin(), column.value.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
    headers.push_back(std::move(column));
  }
  Result<std::string> encoded = encode_headers(headers);
  return encoded ? std::move(*encoded) : std::string(stored);
}

EventId mapped_event_id(std::string_view schema, std::string_view table, std::string_view id) {
  const std::string digest =
      Sha256().add("dovetail:").add(schema).add(".").add(table).add(":").add(id).finish();
  EventId made;
  std::copy_n(digest.begin(), made.bytes.size(), made.bytes.begin());
  made.bytes[6] = static_cast<std::uint8_t>((made.bytes[6] & 0x0f) | 0x80);
  made.bytes[8] = static_cast<std::uint8_t>((made.bytes[8] & 0x3f) | 0x80);
  return made;
}

void append_mapped_event(const Rows& rows, std::size_t row, const TableMapping& mapping,
                         std::int64_t position, Batch& out) {
  std::vector<Header> columns;
  for (std::size_t i = 0; i < mapping.header_columns.size(); ++i) {
    const int column = kMappedFirstHeader + static_cast<int>(i);
    if (!rows.is_null(row, column))
      columns.push_back({mapping.header_columns[i].header, std::string(rows.text(row, column))});
  }
  const std::string headers = join_headers(rows.text(row, kMappedHeaders), std::move(columns));
  Event event;
  event.position = position;
  if (rows.is_null(row, kMappedEventId)) {
    event.id = name_id(kMessageNames, "postgres/mapped/" + std::to_string(position));
    event.defect = "the row has no id; check what writes such rows, and make the column NOT NULL";
  } else {
    event.id = rows.uuid(row, kMappedEventId);
  }
  event.topic = rows.text(row, kMappedTopic);
  event.aggregate_type = rows.text(row, kMappedAggregateType);
  event.aggregate_id = rows.text(row, kMappedAggregateId);
  event.aggregate_version = rows.int8(row, kMappedVersion);
  event.type = rows.text(row, kMappedType);
  event.content_type = rows.text(row, kMappedContentType);
  event.headers = headers;
  if (!rows.is_null(row, kMappedPayload)) event.payload = rows.bytea(row, kMappedPayload);
  event.created_at = rows.timestamptz(row, kMappedCreatedAt);
  out.append(event);
}

}  // namespace dovetail::postgres
