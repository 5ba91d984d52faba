// Texts with fields of an event, such as "{aggregate_type}.events".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/event/batch.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail {

// Any thread; immutable after parse().
class EventTemplate {
 public:
  // Fields: {id} {topic} {aggregate_type} {aggregate_id} {type} {content_type} {aggregate_version}
  // {created_at} and {header.NAME}, which is empty if the event has no such header. "{{" and "}}"
  // are braces.
  static Result<EventTemplate> parse(std::string_view text);

  // The text for `event`, in `arena`. No copy if the template is a single field.
  std::string_view fill(const Event& event, Arena& arena) const;

  bool has_topic() const;  // whether {topic} is one of its fields

 private:
  enum class Field : std::uint8_t;
  struct Piece {
    std::string literal;  // the text before the field
    Field field;
    std::string header;  // its name, if the field is a header
  };
  static bool find_field(std::string_view name, Piece& piece);
  static std::string_view value_of(const Piece& piece, const Event& event, Arena& arena);

  std::vector<Piece> pieces_;
};

}  // namespace dovetail
