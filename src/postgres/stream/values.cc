#include "postgres/stream/values.h"

#include <array>
#include <charconv>
#include <cstring>
#include <string>

#include "core/event/time_text.h"
#include "postgres/connection/byte_order.h"

namespace dovetail::postgres {

namespace {

using Form = pgoutput::Value::Form;

constexpr std::uint8_t kNoDigit = 0xff;

constexpr std::array<std::uint8_t, 256> kHexDigits = [] {
  std::array<std::uint8_t, 256> out{};
  out.fill(kNoDigit);
  for (std::uint8_t i = 0; i < 10; ++i) out['0' + i] = i;
  for (std::uint8_t i = 0; i < 6; ++i) {
    out['a' + i] = static_cast<std::uint8_t>(10 + i);
    out['A' + i] = static_cast<std::uint8_t>(10 + i);
  }
  return out;
}();

std::uint8_t hex_digit(char c) { return kHexDigits[static_cast<unsigned char>(c)]; }

// After "\x".
std::optional<std::string_view> from_hex(std::string_view text, Arena& arena) {
  if (text.size() % 2 != 0) return std::nullopt;
  const std::size_t size = text.size() / 2;
  char* const out = arena.allocate(size);
  std::uint8_t all = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint8_t high = hex_digit(text[2 * i]);
    const std::uint8_t low = hex_digit(text[2 * i + 1]);
    all = static_cast<std::uint8_t>(all | high | low);
    out[i] = static_cast<char>(high << 4 | low);
  }
  if (all > 0xf) return std::nullopt;
  return std::string_view(out, size);
}

bool is_octal(char c, char highest) { return c >= '0' && c <= highest; }

// With the setting bytea_output = escape: "\\" and "\ooo" stand for a byte.
std::optional<std::string_view> from_escapes(std::string_view text, Arena& arena) {
  char* const out = arena.allocate(text.size());
  std::size_t size = 0;
  while (!text.empty()) {
    std::size_t taken = 1;
    char byte = text[0];
    if (byte == '\\' && text.size() >= 2 && text[1] == '\\') {
      taken = 2;
    } else if (byte == '\\') {
      if (text.size() < 4 || !is_octal(text[1], '3') || !is_octal(text[2], '7') ||
          !is_octal(text[3], '7'))
        return std::nullopt;
      byte = static_cast<char>((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
      taken = 4;
    }
    out[size++] = byte;
    text.remove_prefix(taken);
  }
  return std::string_view(out, size);
}

}  // namespace

std::optional<std::int64_t> integer_of(const pgoutput::Value& value) {
  const std::string_view bytes = value.bytes;
  if (value.form == Form::text) {
    std::int64_t number = 0;
    const char* const end = bytes.data() + bytes.size();
    const auto [stopped, error] = std::from_chars(bytes.data(), end, number);
    if (error != std::errc{} || stopped != end) return std::nullopt;
    return number;
  }
  if (value.form != Form::binary) return std::nullopt;
  if (bytes.size() == 8) return read_big_endian<std::int64_t>(bytes.data());
  if (bytes.size() == 4) return read_big_endian<std::int32_t>(bytes.data());
  if (bytes.size() == 2) return read_big_endian<std::int16_t>(bytes.data());
  return std::nullopt;
}

std::optional<EventId> uuid_of(const pgoutput::Value& value) {
  if (value.form == Form::text) {
    const Result<EventId> id = EventId::parse(value.bytes);
    return id ? std::optional(*id) : std::nullopt;
  }
  EventId id;
  if (value.form != Form::binary || value.bytes.size() != id.bytes.size()) return std::nullopt;
  std::memcpy(id.bytes.data(), value.bytes.data(), id.bytes.size());
  return id;
}

std::optional<WallTime> time_of(const pgoutput::Value& value) {
  if (value.form == Form::binary && value.bytes.size() == 8)
    return wall_time_of(read_big_endian<std::int64_t>(value.bytes.data()));
  if (value.form != Form::text) return std::nullopt;
  if (value.bytes == "infinity") return WallTime::max();
  if (value.bytes == "-infinity") return WallTime::min();
  std::string text(value.bytes);
  // Zero minutes of the offset are left out.
  if (text.size() > 3 && (text[text.size() - 3] == '+' || text[text.size() - 3] == '-'))
    text += ":00";
  return parse_time(text);
}

std::optional<std::string_view> text_of(const pgoutput::Value& value) {
  if (value.form != Form::text && value.form != Form::binary) return std::nullopt;
  return value.bytes;
}

std::optional<std::string_view> bytea_of(const pgoutput::Value& value, Arena& arena) {
  if (value.form == Form::binary) return value.bytes;
  if (value.form != Form::text) return std::nullopt;
  if (value.bytes.starts_with("\\x")) return from_hex(value.bytes.substr(2), arena);
  return from_escapes(value.bytes, arena);
}

}  // namespace dovetail::postgres
