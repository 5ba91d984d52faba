// Durations and sizes, as the configuration file and tables show them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace dovetail::config {

// The accepted forms, for error texts.
inline constexpr std::string_view kDurationForm =
    "a whole number with us, ms, s, m, h or d, such as \"250ms\" or \"7d\"";
inline constexpr std::string_view kSizeForm =
    "a whole number with B, KiB, MiB or GiB, such as \"64KiB\" or \"1MiB\"";

std::optional<Duration> parse_duration(std::string_view text);
std::optional<std::size_t> parse_size(std::string_view text);

// Exactly, as in a file: "250ms", "1000KiB".
std::string write_duration(Duration duration);
std::string write_size(std::size_t bytes);

std::string human_duration(Duration duration);  // "850 us", "3.2 s", "4 d 2 h"
std::string human_count(std::uint64_t count);   // "1,234,567"
// "1 event", "1,234 events". The noun has a plain plural.
std::string counted(std::uint64_t count, std::string_view noun);
std::string human_size(std::uint64_t bytes);  // "12 B", "3.2 MiB"
std::string iso_time(WallTime time);          // "2026-11-15T08:08:28.123456Z"

}  // namespace dovetail::config
