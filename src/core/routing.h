// Topic names by template, such as "{aggregate_type}.events".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "dovetail/result.h"

namespace dovetail {

class TopicTemplate {
 public:
  // Fields: {aggregate_type} {aggregate_id} {type} {content_type}. "{{" and "}}" stand for braces.
  static Result<TopicTemplate> parse(std::string_view text);

  // The topic of `event`: the publisher's own where it set one, else the template filled in, kept
  // in `arena`.
  std::string_view route(const Event& event, Arena& arena) const;

 private:
  struct Piece {
    std::string literal;
    std::string_view Event::* field = nullptr;
  };
  std::vector<Piece> pieces_;
};

}  // namespace dovetail
