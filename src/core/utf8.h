// Whether text is what it claims to be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail {

bool is_valid_utf8(std::string_view text);
void append_utf8(std::string& out, std::uint32_t code_point);

}  // namespace dovetail
