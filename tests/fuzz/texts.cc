// Small texts that others write: times, durations, sizes, places of a broker, orders for relays,
// states, owners of a lease, the kernel's line about a process, and what a program says last.
#include <algorithm>
#include <string>

#include "command/event_json.h"
#include "config/units.h"
#include "core/event/time_text.h"
#include "core/event/utf8.h"
#include "core/life/receipt.h"
#include "core/operations.h"
#include "core/relay/hold.h"
#include "fuzz/fuzz.h"
#include "host/owner.h"

using namespace dovetail;

namespace {

void check_time(std::string_view input) {
  const auto time = parse_time(input);
  if (!time) return;
  char text[kTimeTextBytes];
  write_time(*time, text);
  const auto again = parse_time({text, sizeof text});
  // An offset may lead out of the years that have a text.
  const bool is_edge = input.starts_with("0000") || input.starts_with("9999");
  FUZZ_REQUIRE(again && (is_edge || *again == *time));
}

void check_units(std::string_view input) {
  if (const auto duration = config::parse_duration(input))
    FUZZ_REQUIRE(config::parse_duration(config::write_duration(*duration)) == duration);
  if (const auto size = config::parse_size(input))
    FUZZ_REQUIRE(config::parse_size(config::write_size(*size)) == size);
}

void check_names(std::string_view input) {
  const Hold hold = parse_hold(input);
  FUZZ_REQUIRE(parse_hold(to_string(hold)) == hold);
  FUZZ_REQUIRE(hold == Hold::paused || input == to_string(hold));
  if (const auto state = parse_event_state(input))
    FUZZ_REQUIRE(to_string(*state) == input);
  else
    FUZZ_REQUIRE(state.error().text.size() < 300);
  const SourceKind source = parse_source_kind(input);
  FUZZ_REQUIRE(source == SourceKind::broker || input == to_string(source));
}

void check_processes(std::string_view input) {
  const Sighting seen = sighting_in(std::string(input));
  FUZZ_REQUIRE(seen.state != Sighting::State::none);
  FUZZ_REQUIRE(seen.state != Sighting::State::unknown || seen.started == 0);
  const auto identity = identity_in(input);
  if (!identity) return;
  FUZZ_REQUIRE(identity->pid > 0 && !identity->boot.empty() && !identity->namespaces.empty());
  FUZZ_REQUIRE(shown_owner(input).size() < input.size());
  // Of another machine nothing is known.
  FUZZ_REQUIRE(!is_gone(*identity, ProcessIdentity{"another", identity->namespaces, 1, 1},
                        [](std::int64_t) { return Sighting{Sighting::State::none, 0}; }));
}

void check_line(std::string_view input) {
  const std::string line = command::last_line(input);
  FUZZ_REQUIRE(line.size() <= 300 && is_valid_utf8(line));
  FUZZ_REQUIRE(std::none_of(line.begin(), line.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 0x7f;
  }));
}

}  // namespace

void check_input(std::string_view input) {
  check_time(input);
  check_units(input);
  check_names(input);
  check_processes(input);
  check_line(input);
  const auto places = parse_places(input);
  FUZZ_REQUIRE(parse_places(to_text(places)) == places);
}

std::vector<std::string_view> seed_inputs() {
  return {"2026-01-31T09:05:00.123456789Z",
          "2024-02-29t23:59:60+14:00",
          "0000-01-01 00:00:00-23:59",
          "9999-12-31T23:59:59.9999999-23:59",
          "250ms",
          "7d",
          "9223372036854775807us",
          "64KiB",
          "18446744073709551615B",
          "orders.events\t3\t17\t4711\t12\norders.events\t-1\t0\t0\t1\n",
          "draining",
          "paused",
          "discarded",
          "outbox",
          "1234 (a ) (b) R 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 4 0 5000 1 1",
          "1234 (x) Z 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 18446744073709551615 1",
          "shop#1a2b3c4d5e6f@200/6000/pid:[1]time:[2]/0f8fad5b-d9cb-469f-a165-70867728950e",
          "Traceback:\n  File\nValueError: caf\xc3\xa9 \x1b[31m \xff\r\n"};
}
