// Headers come from other services as bytes. Refused ones give a reason; accepted ones survive
// another round trip, and are JSON with the same meaning for other readers.
#include <nlohmann/json.hpp>
#include <string>

#include "dovetail/event.h"
#include "fuzz/fuzz.h"

void check_input(std::string_view input) {
  const auto headers = dovetail::decode_headers(input);
  if (!headers) {
    FUZZ_REQUIRE(!headers.error().text.empty());
    return;
  }
  const auto json = nlohmann::json::parse(input, nullptr, false);
  FUZZ_REQUIRE(input.empty() || json.is_object());
  for (const auto& header : *headers) {
    // Readers may treat a repeated name differently; both must know the name.
    FUZZ_REQUIRE(json.contains(header.name));
    FUZZ_REQUIRE(json.size() != headers->size() || json[header.name] == header.value);
  }
  const auto encoded = dovetail::encode_headers(*headers);
  if (!encoded) return;  // such as an empty name, which publishers may not use
  const auto again = dovetail::decode_headers(*encoded);
  FUZZ_REQUIRE(again.has_value() && *again == *headers);
}

std::vector<std::string_view> seed_inputs() {
  return {R"({})",
          R"({"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})",
          R"({ "a" : "b\n\t\"\\\/" , "c" : "\u00e9\ud83d\ude00" })",
          R"({"a":1})",
          R"({"a":{"b":"c"}})",
          R"({"a":"b",})",
          R"({"\ud800":"x"})",
          "{\"\xc3\xa9\":\"\xf0\x9f\x98\x80\"}"};
}
