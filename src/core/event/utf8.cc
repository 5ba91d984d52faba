#include "core/event/utf8.h"

namespace dovetail {

bool is_valid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t length = 1;
    std::uint32_t least = 0;
    std::uint32_t code = lead;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
      length = 2, least = 0x80, code = lead & 0x1f;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      length = 3, least = 0x800, code = lead & 0x0f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      length = 4, least = 0x10000, code = lead & 0x07;
    } else {
      return false;
    }
    if (text.size() - i < length) return false;
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    i += length;
  }
  return true;
}

char* write_utf8(std::uint32_t code, char* to) {
  const auto put = [&to](std::uint32_t byte) { *to++ = static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
  return to;
}

void append_utf8(std::string& out, std::uint32_t code) {
  char bytes[4];
  out.append(bytes, write_utf8(code, bytes));
}

namespace {

// The length of the first UTF-8 character of `text`; 0: invalid.
std::size_t character_bytes(std::string_view text) {
  for (std::size_t length = 1; length <= 4 && length <= text.size(); ++length)
    if (is_valid_utf8(text.substr(0, length))) return length;
  return 0;
}

}  // namespace

std::string stored_text(std::string_view text, std::size_t bytes_max) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    const bool is_text = length > 0 && text[0] != '\0';
    const std::string_view next = is_text ? text.substr(0, length) : std::string_view("?");
    if (clean.size() + next.size() > bytes_max) break;
    clean += next;
    text.remove_prefix(is_text ? length : 1);
  }
  return clean;
}

}  // namespace dovetail
