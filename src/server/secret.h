// What proves that somebody knows a secret.
#pragma once

#include <string>
#include <string_view>

namespace dovetail::http {

// Equal, in a time that depends on the lengths alone.
bool equal_in_constant_time(std::string_view one, std::string_view other);

// HMAC-SHA256, 32 bytes.
std::string keyed_digest(std::string_view key, std::string_view text);

}  // namespace dovetail::http
