// An event, as a publisher writes it (NewEvent) and as a receiver gets it (Event).
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/result.h"

namespace dovetail {

// Microseconds since 1970 by the wall clock. For people and for ages; never used for order or for
// leases.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

// A UUID. Dovetail makes version 7, which begins with the time; it accepts any version.
struct EventId {
  std::array<std::uint8_t, 16> bytes{};

  static Result<EventId> parse(std::string_view text);  // 8-4-4-4-12 hexadecimal, either case
  std::string to_string() const;                        // lower case

  friend auto operator<=>(const EventId&, const EventId&) = default;
};

struct Header {
  std::string name;
  std::string value;

  friend bool operator==(const Header&, const Header&) = default;
};

// Headers travel as one flat JSON object of strings. Only code that looks inside decodes the
// object.
Result<std::string> encode_headers(std::span<const Header> headers);
Result<std::vector<Header>> decode_headers(std::string_view encoded);

// One event on its way. All views point into its batch and are valid as long as the batch.
struct Event {
  EventId id;
  std::int64_t position = 0;        // its place in the source; grows along each key
  std::uint64_t key_hash = 0;       // of (aggregate_type, aggregate_id); 0 when there is no key
  std::string_view topic;           // at the broker; empty until routed or if the template decides
  std::string_view aggregate_type;  // with aggregate_id: the key along which order is kept
  std::string_view aggregate_id;    // empty: no order is promised for this event
  std::string_view type;
  std::string_view content_type;
  std::string_view headers;            // encoded; empty: no headers
  std::string_view payload;            // bytes, never re-encoded
  std::int64_t aggregate_version = 0;  // 0: the publisher does not number changes
  WallTime created_at{};
  // Why the source cannot read this event; the relay parks it. Always empty for events that a
  // handler gets.
  std::string_view defect{};
  // How often an operator replayed the event after it was parked. A sink whose receiver drops
  // duplicates lets a replayed event through.
  std::uint32_t replays = 0;

  bool has_key() const { return key_hash != 0; }
};

// What a service passes to publish(). Views must be valid during the call only.
struct NewEvent {
  std::string_view aggregate_type;
  std::string_view aggregate_id;
  std::string_view type;
  std::string_view payload;
  std::string_view content_type = "application/json";
  std::span<const Header> headers{};
  std::string_view topic{};  // empty: the relay's template decides
  std::int64_t aggregate_version = 0;
  std::optional<EventId> id{};  // set it, and a repeated publish adds nothing
};

// Every broker that Dovetail supports takes an event within these limits with its default settings:
// with headers and attributes it stays below 1 MiB.
struct EventLimits {
  std::size_t payload_bytes_max = 1000 << 10;
  std::size_t name_bytes_max = 255;  // aggregate_type, type, content_type, topic
  std::size_t key_bytes_max = 1024;  // aggregate_id
  std::size_t headers_bytes_max = 16 << 10;
};

// Checks an event before anything is written: sizes, UTF-8, required fields, headers.
Status validate(const NewEvent& event, const EventLimits& limits = {});

}  // namespace dovetail
