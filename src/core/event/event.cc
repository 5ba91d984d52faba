#include "dovetail/event.h"

#include "core/event/utf8.h"

namespace dovetail {

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
    return fail(Errc::rejected, "the payload is empty; send at least one byte, for example {}");
  }
  if (event.payload.size() > limits.payload_bytes_max) {
    return fail(Errc::rejected, "the payload has " + std::to_string(event.payload.size()) +
                                    " bytes, the limit is " +
                                    std::to_string(limits.payload_bytes_max) +
                                    "; raise payload_max, or send a reference instead");
  }
  const Result<std::string> headers = encode_headers(event.headers);
  if (!headers) return fail(headers.error());
  if (headers->size() > limits.headers_bytes_max) {
    return fail(Errc::rejected, "the headers have " + std::to_string(headers->size()) +
                                    " bytes in total; shorten them to at most " +
                                    std::to_string(limits.headers_bytes_max));
  }
  return {};
}

}  // namespace dovetail
