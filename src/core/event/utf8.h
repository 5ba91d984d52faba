// Checks and repairs UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail {

bool is_valid_utf8(std::string_view text);
char* write_utf8(std::uint32_t code_point, char* to);  // at most 4 bytes; returns their end
void append_utf8(std::string& out, std::uint32_t code_point);

// Text that every store accepts: at most `bytes_max` bytes, cut between two characters. Each byte
// that is not UTF-8, and each NUL, becomes '?'.
std::string stored_text(std::string_view text, std::size_t bytes_max);

}  // namespace dovetail
