#include "core/message/event_template.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/event/event_id.h"
#include "core/event/headers.h"
#include "core/event/time_text.h"

namespace dovetail {

enum class EventTemplate::Field : std::uint8_t {
  aggregate_type,
  aggregate_id,
  type,
  content_type,
  topic,
  id,
  aggregate_version,
  created_at,
  header,
  none,  // only a literal
};

namespace {

// In the order of EventTemplate::Field.
constexpr std::array<std::string_view, 8> kNames = {"aggregate_type",    "aggregate_id", "type",
                                                    "content_type",      "topic",        "id",
                                                    "aggregate_version", "created_at"};
constexpr std::size_t kPiecesMax = 32;
constexpr std::string_view kHeaderPrefix = "header.";

std::string allowed_fields() {
  std::string text;
  for (const std::string_view name : kNames) text.append("{").append(name).append("}, ");
  return text + "{header.NAME}";
}

std::string_view header_of(const Event& event, std::string_view wanted, Arena& arena) {
  HeaderScanner scanner(event.headers);
  while (true) {
    const Result<bool> found = scanner.next();
    if (!found || !*found) return {};
    if (unescaped(scanner.name(), arena) == wanted) return unescaped(scanner.value(), arena);
  }
}

std::string_view number_text(std::int64_t number, Arena& arena) {
  char text[20];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  return arena.copy({text, static_cast<std::size_t>(end - text)});
}

}  // namespace

bool EventTemplate::find_field(std::string_view name, Piece& piece) {
  const auto known = std::find(kNames.begin(), kNames.end(), name);
  if (known != kNames.end()) {
    piece.field = static_cast<Field>(known - kNames.begin());
    return true;
  }
  if (!name.starts_with(kHeaderPrefix)) return false;
  name.remove_prefix(kHeaderPrefix.size());
  if (!is_header_name(name)) return false;
  piece.field = Field::header;
  piece.header = std::string(name);
  return true;
}

Result<EventTemplate> EventTemplate::parse(std::string_view text) {
  const auto bad = [&](const std::string& why) {
    return fail(Errc::rejected, "template \"" + std::string(text) + "\": " + why +
                                    "; allowed are " + allowed_fields());
  };
  if (text.empty()) return bad("it is empty");
  EventTemplate result;
  std::string literal;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool doubled = (c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c;
    if (doubled) {
      literal += c;
      ++i;
    } else if (c == '{') {
      const std::size_t end = text.find('}', i);
      if (end == std::string_view::npos) return bad("'{' is not closed");
      const std::string_view name = text.substr(i + 1, end - i - 1);
      Piece piece{std::exchange(literal, {}), Field::none, {}};
      if (!find_field(name, piece)) return bad("unknown field {" + std::string(name) + "}");
      result.pieces_.push_back(std::move(piece));
      i = end;
    } else if (c == '}') {
      return bad("'}' without '{'");
    } else {
      literal += c;
    }
  }
  if (!literal.empty()) result.pieces_.push_back(Piece{std::move(literal), Field::none, {}});
  if (result.pieces_.size() > kPiecesMax) return bad("it has too many fields");
  return result;
}

bool EventTemplate::has_topic() const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const Piece& piece) { return piece.field == Field::topic; });
}

std::string_view EventTemplate::value_of(const Piece& piece, const Event& event, Arena& arena) {
  switch (piece.field) {
    case Field::aggregate_type:
      return event.aggregate_type;
    case Field::aggregate_id:
      return event.aggregate_id;
    case Field::type:
      return event.type;
    case Field::content_type:
      return event.content_type;
    case Field::topic:
      return event.topic;
    case Field::id: {
      char* const text = arena.allocate(kIdTextBytes);
      write_id(event.id, text);
      return {text, kIdTextBytes};
    }
    case Field::aggregate_version:
      return number_text(event.aggregate_version, arena);
    case Field::created_at: {
      char* const text = arena.allocate(kTimeTextBytes);
      write_time(event.created_at, text);
      return {text, kTimeTextBytes};
    }
    case Field::header:
      return header_of(event, piece.header, arena);
    case Field::none:
      return {};
  }
  return {};
}

std::string_view EventTemplate::fill(const Event& event, Arena& arena) const {
  if (pieces_.size() == 1) {
    const Piece& only = pieces_.front();
    if (only.literal.empty()) return value_of(only, event, arena);
    if (only.field == Field::none) return arena.copy(only.literal);
  }
  std::array<std::string_view, kPiecesMax> values;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    values[i] = value_of(pieces_[i], event, arena);
    bytes += pieces_[i].literal.size() + values[i].size();
  }
  char* const start = arena.allocate(bytes);
  char* to = start;
  const auto put = [&to](std::string_view part) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  };
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    put(pieces_[i].literal);
    put(values[i]);
  }
  return {start, bytes};
}

}  // namespace dovetail
