#include "core/message/routing.h"

#include <string>

namespace dovetail {

Result<TopicTemplate> TopicTemplate::parse(std::string_view text) {
  auto parsed = EventTemplate::parse(text);
  if (!parsed) return fail(parsed.error().code, "topic " + parsed.error().text);
  if (parsed->has_topic()) {
    return fail(Errc::rejected, "topic template \"" + std::string(text) +
                                    "\": {topic} cannot refer to itself; use another field, such "
                                    "as {aggregate_type}");
  }
  return TopicTemplate(std::move(*parsed));
}

std::string_view TopicTemplate::route(const Event& event, Arena& arena) const {
  return event.topic.empty() ? template_.fill(event, arena) : event.topic;
}

}  // namespace dovetail
