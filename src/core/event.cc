#include "dovetail/event.h"

#include "core/utf8.h"

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

Status check_text(std::string_view field, std::string_view text, std::size_t bytes_max,
                  bool may_be_empty) {
  const std::string name(field);
  if (text.empty() && !may_be_empty) {
    return fail(Errc::rejected, name + " is empty; every event needs one");
  }
  if (text.size() > bytes_max) {
    return fail(Errc::rejected, name + " has " + std::to_string(text.size()) +
                                    " bytes; shorten it to at most " + std::to_string(bytes_max));
  }
  if (!is_valid_utf8(text)) {
    return fail(Errc::rejected, name + " is not valid UTF-8; check its encoding");
  }
  if (text.find('\0') != std::string_view::npos) {
    return fail(Errc::rejected, name + " contains a NUL character; remove it");
  }
  return {};
}

}  // namespace

Status validate(const NewEvent& event, const EventLimits& limits) {
  DOVETAIL_TRY(check_text("aggregate type", event.aggregate_type, limits.name_bytes_max, false));
  DOVETAIL_TRY(check_text("key", event.aggregate_id, limits.key_bytes_max, true));
  DOVETAIL_TRY(check_text("type", event.type, limits.name_bytes_max, false));
  DOVETAIL_TRY(check_text("content type", event.content_type, limits.name_bytes_max, false));
  DOVETAIL_TRY(check_text("topic", event.topic, limits.name_bytes_max, true));
  if (event.payload.empty()) {
    return fail(Errc::rejected, "the payload is empty; send at least one byte, such as {}");
  }
  if (event.payload.size() > limits.payload_bytes_max) {
    return fail(Errc::rejected, "the payload has " + std::to_string(event.payload.size()) +
                                    " bytes; the limit is " +
                                    std::to_string(limits.payload_bytes_max) +
                                    ", check payload_max or send a reference instead");
  }
  const Result<std::string> headers = encode_headers(event.headers);
  if (!headers) return fail(headers.error());
  if (headers->size() > limits.headers_bytes_max) {
    return fail(Errc::rejected, "the headers have " + std::to_string(headers->size()) +
                                    " bytes together; shorten them to at most " +
                                    std::to_string(limits.headers_bytes_max));
  }
  return {};
}

}  // namespace dovetail
