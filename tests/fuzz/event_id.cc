// An accepted id stays the same when it is written and read again.
#include "dovetail/event.h"
#include "fuzz/fuzz.h"

void check_input(std::string_view input) {
  const auto id = dovetail::EventId::parse(input);
  if (!id) {
    FUZZ_REQUIRE(!id.error().text.empty());
    return;
  }
  const std::string text = id->to_string();
  FUZZ_REQUIRE(text.size() == 36 && input.size() == 36);
  const auto again = dovetail::EventId::parse(text);
  FUZZ_REQUIRE(again.has_value() && *again == *id);
}

std::vector<std::string_view> seed_inputs() {
  return {"01890a5d-ac96-774b-bcce-b302099a8057", "01890A5D-AC96-774B-BCCE-B302099A8057",
          "01890a5dac96774bbcceb302099a8057", "{01890a5d-ac96-774b-bcce-b302099a8057}", ""};
}
