// What an event is: for those who publish one (NewEvent) and for those who receive one (Event).
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

// Microseconds since 1970, by the wall clock. For people and for ages; never for order or for
// leases.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

// A UUID. Dovetail makes version 7 (they begin with their time), and accepts any other.
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

// Headers travel encoded, as one flat JSON object of strings, and are decoded only by those who
// look inside.
Result<std::string> encode_headers(std::span<const Header> headers);
Result<std::vector<Header>> decode_headers(std::string_view encoded);

// One event on its way. All views point into the batch that it came in and end with it.
struct Event {
  EventId id;
  std::int64_t position = 0;   // where the source found it; grows along each key
  std::uint64_t key_hash = 0;  // of (aggregate_type, aggregate_id); 0 when there is no key
  std::string_view topic;      // where it goes; empty until routed, unless the publisher chose one
  std::string_view aggregate_type;  // with aggregate_id: the key along which order is kept
  std::string_view aggregate_id;    // empty: no order is promised for this event
  std::string_view type;
  std::string_view content_type;
  std::string_view headers;            // encoded; empty when there are none
  std::string_view payload;            // bytes, never re-encoded
  std::int64_t aggregate_version = 0;  // 0: the publisher keeps none
  WallTime created_at{};
  // Why the source could not make sense of what it read; the relay parks such an event. Empty for
  // every event that a handler sees.
  std::string_view defect{};
  // How often an operator had it delivered once more after it was parked. Sinks whose receiver
  // drops what it has seen before let such an event through.
  std::uint32_t replays = 0;

  bool has_key() const { return key_hash != 0; }
};

// What a service hands to publish(). Views need to live only as long as the call.
struct NewEvent {
  std::string_view aggregate_type;
  std::string_view aggregate_id;
  std::string_view type;
  std::string_view payload;
  std::string_view content_type = "application/json";
  std::span<const Header> headers{};
  std::string_view topic{};  // empty: the relay's template decides
  std::int64_t aggregate_version = 0;
  std::optional<EventId> id{};  // set it to make a retried publish harmless
};

// An event within these limits is taken by every broker that Dovetail knows, as that comes: with
// its headers and attributes it stays below 1 MiB.
struct EventLimits {
  std::size_t payload_bytes_max = 1000 << 10;
  std::size_t name_bytes_max = 255;  // aggregate_type, type, content_type, topic
  std::size_t key_bytes_max = 1024;  // aggregate_id
  std::size_t headers_bytes_max = 16 << 10;
};

// Says what is wrong with an event before anything is written: size, UTF-8, emptiness, headers.
Status validate(const NewEvent& event, const EventLimits& limits = {});

}  // namespace dovetail
