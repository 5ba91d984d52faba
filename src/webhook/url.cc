#include "webhook/url.h"

#include <curl/curl.h>

#include <optional>

#include "core/handle.h"

namespace dovetail::http {

namespace {

std::optional<std::string> part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return std::nullopt;
  const Handle<char, curl_free> owner(text);
  return std::string(text);
}

tl::unexpected<Error> bad(std::string_view why) {
  return fail(Errc::rejected, "the url is invalid: " + std::string(why) +
                                  "; use a form like \"https://example.com/events\"");
}

void append_encoded(std::string& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 0xf];
    }
  }
}

// A server would resolve such a segment.
bool has_dot_segment(std::string_view url) {
  std::string_view path = url.substr(0, url.find('?'));
  for (std::size_t at = path.find('/'); at != std::string_view::npos;) {
    path.remove_prefix(at + 1);
    at = path.find('/');
    const std::string_view segment = path.substr(0, at);
    if (segment == "." || segment == "..") return true;
  }
  return false;
}

}  // namespace

Result<UrlTemplate> UrlTemplate::parse(std::string_view url) {
  UrlTemplate made;
  std::string plain;  // each field replaced by a letter; the result must be a valid url
  std::string_view rest = url;
  bool in_path = true;
  for (std::size_t open = rest.find('{'); open != std::string_view::npos; open = rest.find('{')) {
    const std::size_t close = rest.find('}', open);
    if (close == std::string_view::npos) return bad("a '{' is not closed");
    Piece piece;
    piece.literal = rest.substr(0, open);
    piece.name = rest.substr(open, close + 1 - open);
    if (piece.literal.find('?') != std::string::npos) in_path = false;
    piece.in_path = in_path;
    Result<EventTemplate> field = EventTemplate::parse(piece.name);
    if (!field) return bad(field.error().text);
    piece.field = std::move(*field);
    plain += piece.literal + "x";
    made.pieces_.push_back(std::move(piece));
    rest.remove_prefix(close + 1);
  }
  made.rest_ = rest;
  plain += rest;
  if (plain.find('}') != std::string::npos) return bad("a '}' has no '{'");
  for (const char c : plain)
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) return bad("it contains a space");

  const Handle<CURLU, curl_url_cleanup> parsed(curl_url());
  if (curl_url_set(parsed.get(), CURLUPART_URL, plain.c_str(), CURLU_PATH_AS_IS) != CURLUE_OK)
    return bad("it cannot be parsed");
  const std::string scheme = part_of(parsed.get(), CURLUPART_SCHEME).value_or("");
  if (scheme != "http" && scheme != "https") return bad("its scheme is not http or https");
  // curl would read "http:/name" as "http://name".
  if (plain.find("://") != scheme.size()) return bad("two slashes must follow its scheme");
  if (part_of(parsed.get(), CURLUPART_USER) || part_of(parsed.get(), CURLUPART_PASSWORD))
    return bad("it must not contain user or password");
  if (part_of(parsed.get(), CURLUPART_FRAGMENT)) return bad("it has a fragment ('#')");
  made.https_ = scheme == "https";
  made.host_ = part_of(parsed.get(), CURLUPART_HOST).value_or("");
  const auto port = part_of(parsed.get(), CURLUPART_PORT);
  made.base_ = scheme + "://" + made.host_ + (port ? ":" + *port : "");
  // curl would read "https:///name" as "https://name".
  if (plain.compare(scheme.size(), 4, ":///") == 0) return bad("it has no host");
  const std::string& before = made.pieces_.empty() ? made.rest_ : made.pieces_.front().literal;
  const std::size_t host_at = before.find("://");
  if (!made.pieces_.empty() &&
      (host_at == std::string::npos || before.find('/', host_at + 3) == std::string::npos))
    return bad("a field is allowed only after the host and a '/'");
  if (has_dot_segment(std::string_view(plain).substr(host_at + 3)))
    return bad("it has \".\" or \"..\" in its path");
  return made;
}

Status UrlTemplate::fill(const Event& event, Arena& arena, std::string& out) const {
  const std::size_t begin = out.size();
  for (const Piece& piece : pieces_) {
    out += piece.literal;
    const std::string_view value = piece.field.fill(event, arena);
    if (value.empty() && piece.in_path)
      return fail(Errc::rejected,
                  "the event's " + piece.name +
                      " is empty, but the url needs it; check the event, or the url of the store");
    append_encoded(out, value);
  }
  out += rest_;
  const std::size_t path_at = out.find("://", begin) + 3;
  if (has_fields() && has_dot_segment(std::string_view(out).substr(path_at)))
    return fail(
        Errc::rejected,
        "a field of the event would put \".\" or \"..\" into the url's path; check the event, or "
        "the url of the store");
  return {};
}

}  // namespace dovetail::http
