// Paths of requests, as a service behind us might understand them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::http {

// None: a percent sign is not followed by two digits.
std::optional<std::string> percent_decoded(std::string_view text);

// Why a path could lead out of where it seems to lead: it has a segment "." or "..", plain or
// encoded, once or several times, with slashes of either kind. Empty: it cannot.
std::string_view why_unsafe_path(std::string_view path);

}  // namespace dovetail::http
