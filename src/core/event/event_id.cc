#include "core/event/event_id.h"

#include <chrono>

namespace dovetail {

namespace {

constexpr std::uint32_t kCounterMax = 0xfff;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_dash_position(std::size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; }

}  // namespace

EventId IdGenerator::next() {
  EventId id;
  entropy_.fill(id.bytes);
  const auto wall_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
          .count());
  if (wall_ms > last_ms_) {
    last_ms_ = wall_ms;
    // Starts in the lower half, so that the counter can rise within the millisecond.
    counter_ = (static_cast<std::uint32_t>(id.bytes[6]) << 8 | id.bytes[7]) & (kCounterMax >> 1);
  } else if (counter_ == kCounterMax) {
    ++last_ms_;
    counter_ = 0;
  } else {
    ++counter_;
  }
  for (std::size_t i = 0; i < 6; ++i) {
    id.bytes[i] = static_cast<std::uint8_t>(last_ms_ >> (8 * (5 - i)));
  }
  id.bytes[6] = static_cast<std::uint8_t>(0x70 | (counter_ >> 8));
  id.bytes[7] = static_cast<std::uint8_t>(counter_ & 0xff);
  id.bytes[8] = static_cast<std::uint8_t>(0x80 | (id.bytes[8] & 0x3f));
  return id;
}

std::optional<EventId> read_id(std::string_view text) {
  if (text.size() != kIdTextBytes) return std::nullopt;
  EventId id;
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_dash_position(i)) {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const int value = hex_value(text[i]);
    if (value < 0) return std::nullopt;
    std::uint8_t& byte = id.bytes[nibble / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | value);
    ++nibble;
  }
  return id;
}

Result<EventId> EventId::parse(std::string_view text) {
  if (const auto id = read_id(text)) return *id;
  return fail(Errc::rejected, "\"" + std::string(text.substr(0, 60)) +
                                  "\" is not an event id; use a UUID such as "
                                  "018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09");
}

void write_id(const EventId& id, char* to) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::size_t at = 0;
  for (const std::uint8_t byte : id.bytes) {
    if (is_dash_position(at)) to[at++] = '-';
    to[at++] = kDigits[byte >> 4];
    to[at++] = kDigits[byte & 0xf];
  }
}

std::string EventId::to_string() const {
  std::string text(kIdTextBytes, '-');
  write_id(*this, text.data());
  return text;
}

}  // namespace dovetail
