// Answers of RabbitMQ's management API. All JSON is read, with the same meaning for other
// readers.
#include <nlohmann/json.hpp>
#include <string>

#include "fuzz/fuzz.h"
#include "rabbitmq/json.h"
#include "rabbitmq/management.h"

namespace {

void compare(const dovetail::rabbitmq::Json& ours, const nlohmann::json& theirs) {
  if (theirs.is_string()) FUZZ_REQUIRE(ours.text() == theirs.get<std::string>());
  if (theirs.is_boolean()) FUZZ_REQUIRE(ours.is_true() == theirs.get<bool>());
  if (theirs.is_null()) FUZZ_REQUIRE(ours.is_null());
  if (theirs.is_array()) {
    FUZZ_REQUIRE(ours.items().size() == theirs.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) compare(ours.items()[i], theirs[i]);
  }
  if (theirs.is_object()) {
    FUZZ_REQUIRE(ours.is_object() && ours.fields().size() == theirs.size());
    for (const auto& [name, value] : theirs.items()) {
      FUZZ_REQUIRE(ours.fields().contains(name));
    }
  }
}

std::size_t depth_of(std::string_view input) {
  std::size_t depth = 0;
  for (const char c : input) depth += c == '[' || c == '{' ? 1 : 0;
  return depth;
}

void check_answer(std::string_view input) {
  const auto answer = dovetail::rabbitmq::parse_answer(input);
  if (!answer) {
    FUZZ_REQUIRE(answer.error().code == dovetail::Errc::unavailable);
    return;
  }
  FUZZ_REQUIRE(answer->status >= 100 && answer->status <= 999 && input.starts_with("HTTP/1."));
  FUZZ_REQUIRE(input.ends_with("\r\n\r\n" + answer->body));
}

}  // namespace

void check_input(std::string_view input) {
  check_answer(input);
  const auto ours = dovetail::rabbitmq::Json::parse(input);
  const auto theirs = nlohmann::json::parse(input, nullptr, false);
  if (!ours) FUZZ_REQUIRE(!ours.error().text.empty());
  // The other parser takes a zero for the end.
  if (theirs.is_discarded() || depth_of(input) > 60 || input.find('\0') != input.npos) return;
  FUZZ_REQUIRE(ours.has_value());
  compare(*ours, theirs);
}

std::vector<std::string_view> seed_inputs() {
  return {"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n[{\"name\":\"orders\"}]",
          "HTTP/1.1 -99 x\r\n\r\n",
          "HTTP/1.1\r\n\r\n",
          R"({})",
          R"([{"name":"orders","durable":true,"arguments":{"x-max-length":1000}},null,-1.5e3])",
          R"("\u00e9\ud83d\ude00\n\"\\\/")",
          R"({"a":{"b":["c",{"d":false}]}})",
          R"({"a":)",
          R"(["\ud800"])",
          "[[[[[[[[[[[[[[]]]]]]]]]]]]]]"};
}
