// Whether text is what it claims to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail {

bool is_valid_utf8(std::string_view text);
char* write_utf8(std::uint32_t code_point, char* to);  // at most 4 bytes; returns their end
void append_utf8(std::string& out, std::uint32_t code_point);

// What every store takes, and nothing more lost than must be: at most so many bytes, cut between
// two characters; each byte that is no UTF-8, and each NUL, is a '?'.
std::string stored_text(std::string_view text, std::size_t bytes_max);

}  // namespace dovetail
