// Topic names by template, such as "{aggregate_type}.events".
#pragma once

#include <string_view>
#include <utility>

#include "core/event/batch.h"
#include "core/message/event_template.h"
#include "dovetail/result.h"

namespace dovetail {

class TopicTemplate {
 public:
  // Accepts every field of EventTemplate except {topic}.
  static Result<TopicTemplate> parse(std::string_view text);

  // The topic of `event`: the publisher's own if it set one, else the template filled in, in
  // `arena`.
  std::string_view route(const Event& event, Arena& arena) const;

 private:
  explicit TopicTemplate(EventTemplate text) : template_(std::move(text)) {}
  EventTemplate template_;
};

}  // namespace dovetail
