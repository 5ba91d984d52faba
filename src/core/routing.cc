#include "core/routing.h"

#include <array>
#include <cstring>
#include <utility>

namespace dovetail {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view Event::*>, 4> kFields{{
    {"aggregate_type", &Event::aggregate_type},
    {"aggregate_id", &Event::aggregate_id},
    {"type", &Event::type},
    {"content_type", &Event::content_type},
}};

std::string_view Event::* find_field(std::string_view name) {
  for (const auto& [known, field] : kFields) {
    if (known == name) return field;
  }
  return nullptr;
}

std::string allowed_fields() {
  std::string text;
  for (const auto& [known, field] : kFields) {
    if (!text.empty()) text += ", ";
    text.append("{").append(known).append("}");
  }
  return text;
}

}  // namespace

Result<TopicTemplate> TopicTemplate::parse(std::string_view text) {
  const auto bad = [&](const std::string& why) {
    return fail(Errc::rejected, "topic template \"" + std::string(text) + "\": " + why +
                                    "; allowed are " + allowed_fields());
  };
  if (text.empty()) return bad("it is empty");
  TopicTemplate result;
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
      const auto field = find_field(name);
      if (field == nullptr) return bad("unknown field {" + std::string(name) + "}");
      result.pieces_.push_back(Piece{std::exchange(literal, {}), field});
      i = end;
    } else if (c == '}') {
      return bad("'}' without '{'");
    } else {
      literal += c;
    }
  }
  if (!literal.empty()) result.pieces_.push_back(Piece{std::move(literal), nullptr});
  return result;
}

std::string_view TopicTemplate::route(const Event& event, Arena& arena) const {
  if (!event.topic.empty()) return event.topic;
  std::size_t bytes = 0;
  for (const Piece& piece : pieces_) {
    bytes += piece.literal.size() + (piece.field != nullptr ? (event.*piece.field).size() : 0);
  }
  char* const start = arena.allocate(bytes);
  char* to = start;
  const auto put = [&to](std::string_view part) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  };
  for (const Piece& piece : pieces_) {
    put(piece.literal);
    if (piece.field != nullptr) put(event.*piece.field);
  }
  return {start, bytes};
}

}  // namespace dovetail
