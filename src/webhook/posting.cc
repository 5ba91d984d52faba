#include "webhook/posting.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/ascii.h"
#include "server/header_field.h"

namespace dovetail::http {

namespace {

// Sorted. Headers that frame a request, identify its sender, select the answer, or that we set.
constexpr std::array<std::string_view, 33> kReserved{
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "from",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-forwarded-proto",
};
static_assert(std::is_sorted(kReserved.begin(), kReserved.end()));

Status cannot_carry(std::string_view name, std::string_view why) {
  return fail(Errc::rejected, "HTTP cannot carry the header \"" + std::string(name.substr(0, 60)) +
                                  "\": " + std::string(why));
}

Status check_header(const MessageHeader& header) {
  if (!is_token(header.name))
    return cannot_carry(header.name, "check that its name has only letters, digits and marks");
  if (is_reserved_header(to_lower(header.name)))
    return cannot_carry(header.name, "HTTP uses this name itself; rename the header");
  if (const std::string_view why = why_no_header_value(header.value); !why.empty())
    return cannot_carry(header.name, why);
  return {};
}

Result<std::string> authorization_of(const SinkOptions& options) {
  const auto bad = [](std::string_view what) {
    return fail(Errc::rejected, std::string(what) + "; check user and password of the store");
  };
  if (options.password.empty() && options.user.empty()) return std::string();
  if (options.user.empty()) {
    if (!why_no_header_value(options.password).empty())
      return bad("the token has characters that a header cannot carry");
    return "Bearer " + options.password;
  }
  if (options.user.find(':') != std::string::npos) return bad("the user has a ':' in its name");
  return "Basic " + to_base64(options.user + ":" + options.password);
}

}  // namespace

bool is_reserved_header(std::string_view lower_name) {
  return std::binary_search(kReserved.begin(), kReserved.end(), lower_name) ||
         lower_name.starts_with("proxy-") || lower_name.starts_with("if-") ||
         lower_name.starts_with("webhook-") || lower_name.starts_with("sec-");
}

std::string_view why_no_header_value(std::string_view value) {
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f)
      return "its value has a line break or another control character; check its publisher";
  }
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  if (!value.empty() && (is_blank(value.front()) || is_blank(value.back())))
    return "its value begins or ends with a blank, which HTTP drops; check its publisher";
  return {};
}

void Posting::clear() {
  url.clear();
  headers.clear();
  header_starts.clear();
  body = {};
}

void Posting::add_header(std::string_view name, std::string_view value) {
  header_starts.push_back(headers.size());
  headers += name;
  // With a semicolon, curl sends a header with an empty value.
  headers += value.empty() ? ";" : ": ";
  headers += value;
  headers += '\0';
}

PostingWriter::PostingWriter(UrlTemplate url, MessageWriter writer, WebhookSecrets secrets,
                             std::string authorization, std::size_t payload_bytes_max)
    : url_(std::move(url)),
      writer_(std::move(writer)),
      secrets_(std::move(secrets)),
      authorization_(std::move(authorization)),
      payload_bytes_max_(payload_bytes_max) {}

Result<PostingWriter> PostingWriter::make(const SinkOptions& options) {
  Result<UrlTemplate> url = UrlTemplate::parse(options.url);
  if (!url) return fail(url.error());
  Result<MessageWriter> writer = MessageWriter::make(options.message, kHttpDialect);
  if (!writer) return fail(writer.error());
  for (const auto& [name, value] : options.message.headers)
    if (const Status checked = check_header({name, ""}); !checked) return fail(checked.error());
  Result<WebhookSecrets> secrets = WebhookSecrets::parse(options.secrets);
  if (!secrets) return fail(secrets.error());
  Result<std::string> authorization = authorization_of(options);
  if (!authorization) return fail(authorization.error());
  return PostingWriter(std::move(*url), std::move(*writer), std::move(*secrets),
                       std::move(*authorization), options.payload_bytes_max);
}

Status PostingWriter::write(const Event& event, WallTime now, Posting& out) {
  out.clear();
  arena_.clear();
  if (event.payload.size() > payload_bytes_max_)
    return fail(Errc::rejected, "the payload has " + std::to_string(event.payload.size()) +
                                    " bytes, the limit is " + std::to_string(payload_bytes_max_) +
                                    "; raise payload_bytes_max, or send a reference instead");
  DOVETAIL_TRY(writer_.write(event, arena_, message_));
  if (url_.has_fields()) DOVETAIL_TRY(url_.fill(event, arena_, out.url));
  for (const MessageHeader& header : message_.headers) {
    DOVETAIL_TRY(check_header(header));
    out.add_header(header.name, header.value);
  }
  if (const std::string_view why = why_no_header_value(message_.content_type); !why.empty())
    return cannot_carry("content-type", why);
  out.add_header("content-type", message_.content_type);
  out.add_header("idempotency-key", message_.id);
  if (!authorization_.empty()) out.add_header("authorization", authorization_);
  if (!secrets_.empty()) {
    const std::string timestamp = std::to_string(
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
    out.add_header("webhook-id", message_.id);
    out.add_header("webhook-timestamp", timestamp);
    out.add_header("webhook-signature", secrets_.sign(message_.id, timestamp, message_.payload));
  }
  out.body = message_.payload;
  return {};
}

}  // namespace dovetail::http
