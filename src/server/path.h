// Request paths, as the service behind may understand them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::http {

// Empty: a percent sign is not followed by two hex digits.
std::optional<std::string> percent_decoded(std::string_view text);

// Why a path could lead outside its prefix: it has a segment "." or "..", plain or encoded once or
// several times, with either kind of slash. Empty: it is safe.
std::string_view why_unsafe_path(std::string_view path);

}  // namespace dovetail::http
