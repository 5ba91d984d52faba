// The id of a stream entry: a time in milliseconds and a number within it.
#pragma once

#include <algorithm>
#include <charconv>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dovetail::redis {

struct EntryId {
  std::uint64_t milliseconds = 0;
  std::uint64_t number = 0;

  static std::optional<EntryId> parse(std::string_view text) {
    EntryId id;
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, id.milliseconds);
    if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return std::nullopt;
    const auto second = std::from_chars(first.ptr + 1, end, id.number);
    if (second.ec != std::errc{} || second.ptr != end) return std::nullopt;
    return id;
  }

  std::string to_string() const {
    return std::to_string(milliseconds) + "-" + std::to_string(number);
  }

  // Ids that a server makes from its clock, until the year 2109.
  bool is_time() const { return milliseconds < std::uint64_t{1} << 42; }

  // The entry's position, if the entry before has position `last`. For ids made by a server it is
  // the same in every session; for others it at least grows along the stream.
  std::int64_t position(std::int64_t last) const {
    constexpr std::uint64_t kNumberMax = std::uint64_t{1} << 40;
    constexpr std::uint64_t kForeignMax = std::uint64_t{1} << 62;
    const std::uint64_t packed = is_time() ? (milliseconds << 20) + std::min(number, kNumberMax)
                                           : std::min(milliseconds, kForeignMax);
    return std::max(static_cast<std::int64_t>(packed), last + 1);
  }

  friend auto operator<=>(const EntryId&, const EntryId&) = default;
};

}  // namespace dovetail::redis
