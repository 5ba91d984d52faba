#include "config/units.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <utility>

#include "core/event/time_text.h"

namespace dovetail::config {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// The longest matching suffix is the unit; only digits may stand before it.
std::optional<std::uint64_t> parse_with_unit(std::string_view text, std::span<const Unit> units,
                                             std::uint64_t result_max) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0) return std::nullopt;
  std::uint64_t number = 0;
  const char* const first = text.data();
  const auto parsed = std::from_chars(first, first + digits, number);
  if (parsed.ec != std::errc{}) return std::nullopt;
  std::string_view suffix = text.substr(digits);
  if (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  for (const Unit& unit : units) {
    if (unit.name != suffix) continue;
    if (number > result_max / unit.factor) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

// The largest unit without a remainder.
std::string write_with_unit(std::uint64_t number, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units)
    if (number != 0 && number % unit.factor == 0) best = &unit;
  return std::to_string(number / best->factor) + std::string(best->name);
}

constexpr std::uint64_t kSecond = 1'000'000;
constexpr std::uint64_t kMinute = 60 * kSecond;
constexpr std::uint64_t kHour = 60 * kMinute;
constexpr std::uint64_t kDay = 24 * kHour;

constexpr Unit kDurationUnits[] = {{"us", 1},      {"ms", 1000}, {"s", kSecond},
                                   {"m", kMinute}, {"h", kHour}, {"d", kDay}};
constexpr Unit kSizeUnits[] = {{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

std::string decimal(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, value < 10 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  // The limit of a thousand years keeps every sum of durations in range.
  const auto us = parse_with_unit(text, kDurationUnits, 365'000 * kDay);
  if (!us) return std::nullopt;
  return Duration(static_cast<std::int64_t>(*us));
}

std::optional<std::size_t> parse_size(std::string_view text) {
  return parse_with_unit(text, kSizeUnits, std::uint64_t{1} << 46);
}

std::string write_duration(Duration duration) {
  return write_with_unit(static_cast<std::uint64_t>(duration.count()), kDurationUnits);
}

std::string write_size(std::size_t bytes) { return write_with_unit(bytes, kSizeUnits); }

std::string human_duration(Duration duration) {
  if (duration < Duration::zero()) return "0 us";
  const auto us = static_cast<std::uint64_t>(duration.count());
  if (us < 1000) return std::to_string(us) + " us";
  if (us < kSecond) return decimal(static_cast<double>(us) / 1000.0, "ms");
  if (us < kMinute) return decimal(static_cast<double>(us) / static_cast<double>(kSecond), "s");
  const auto two = [us](std::uint64_t big, const char* big_name, std::uint64_t small,
                        const char* small_name) {
    std::string text = std::to_string(us / big) + " " + big_name;
    if (us % big >= small) text += " " + std::to_string(us % big / small) + " " + small_name;
    return text;
  };
  if (us < kHour) return two(kMinute, "min", kSecond, "s");
  if (us < kDay) return two(kHour, "h", kMinute, "min");
  return two(kDay, "d", kHour, "h");
}

std::string human_count(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return human_count(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string human_size(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value,
                kUnits[unit]);
  return text;
}

std::string iso_time(WallTime time) {
  std::string text(kTimeTextBytes, '0');
  write_time(time, text.data());
  return text;
}

}  // namespace dovetail::config
