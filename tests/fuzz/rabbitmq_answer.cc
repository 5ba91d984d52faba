// All that RabbitMQ's management API says to one request. What follows an accepted head is the
// body.
#include <string>

#include "fuzz/fuzz.h"
#include "rabbitmq/management.h"

void check_input(std::string_view input) {
  const auto answer = dovetail::rabbitmq::parse_answer(input);
  if (!answer) {
    FUZZ_REQUIRE(answer.error().code == dovetail::Errc::unavailable);
    return;
  }
  FUZZ_REQUIRE(answer->status >= 100 && answer->status <= 999 && input.starts_with("HTTP/1."));
  FUZZ_REQUIRE(input.ends_with("\r\n\r\n" + answer->body));
}

std::vector<std::string_view> seed_inputs() {
  return {"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n[{\"name\":\"orders\"}]",
          "HTTP/1.1 -99 x\r\n\r\n", "HTTP/1.1\r\n\r\n"};
}
