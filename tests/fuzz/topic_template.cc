// An accepted template can be filled in for any event, and a publisher's own topic wins.
#include <string>

#include "core/message/event_template.h"
#include "core/message/routing.h"
#include "fuzz/fuzz.h"

namespace {

// Braces of a text are doubled.
void check_event_template(std::string_view input) {
  dovetail::Arena arena;
  dovetail::Event event;
  event.topic = event.type = "x";
  if (const auto filled = dovetail::EventTemplate::parse(input))
    (void)filled->fill(event, arena);
  else
    FUZZ_REQUIRE(!filled.error().text.empty());
  std::string doubled;
  for (const char c : input) doubled.append(c == '{' || c == '}' ? 2 : 1, c);
  const auto literal = dovetail::EventTemplate::parse(doubled);
  FUZZ_REQUIRE(literal.has_value() == !input.empty());
  if (literal) FUZZ_REQUIRE(literal->fill(event, arena) == input && !literal->has_topic());
}

}  // namespace

void check_input(std::string_view input) {
  check_event_template(input);
  const auto topics = dovetail::TopicTemplate::parse(input);
  if (!topics) {
    FUZZ_REQUIRE(!topics.error().text.empty());
    return;
  }
  dovetail::Arena arena;
  dovetail::Event event;
  event.aggregate_type = "order";
  event.aggregate_id = "17";
  event.type = "placed";
  event.content_type = "text/plain";
  // Only a header may be missing.
  FUZZ_REQUIRE(!topics->route(event, arena).empty() ||
               input.find("{header.") != std::string_view::npos);
  event.topic = "chosen";
  FUZZ_REQUIRE(topics->route(event, arena) == "chosen");
}

std::vector<std::string_view> seed_inputs() {
  return {"{aggregate_type}.events",
          "{{{type}}}",
          "a.{aggregate_id}.{content_type}",
          "{header.x}{id}{created_at}",
          "{",
          "}",
          "{x}",
          "plain"};
}
