// Whether text is what it claims to be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail {

bool is_valid_utf8(std::string_view text);
char* write_utf8(std::uint32_t code_point, char* to);  // at most 4 bytes; returns their end
void append_utf8(std::string& out, std::uint32_t code_point);

}  // namespace dovetail
