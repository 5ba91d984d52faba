// An accepted template can be filled in for any event, and a publisher's own topic wins.
#include "core/message/routing.h"
#include "fuzz/fuzz.h"

void check_input(std::string_view input) {
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
