#include "core/inbox/request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/event/headers.h"
#include "core/event/sha256.h"

namespace dovetail {

namespace {

constexpr std::size_t kKeyBytesMax = 255;
constexpr std::string_view kForm =
    "; send 1 to 255 printable ASCII characters in quotes, such as Idempotency-Key: "
    "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"";

tl::unexpected<Error> bad_key(std::string_view why) {
  return fail(Errc::rejected, std::string(why) + std::string(kForm));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

// RFC 8941, 3.3.3. Parameters after the string are ignored.
Result<std::string> parse_quoted(std::string_view value) {
  std::string key;
  std::size_t at = 1;
  for (; at < value.size() && value[at] != '"'; ++at) {
    if (value[at] == '\\' && (++at == value.size() || (value[at] != '"' && value[at] != '\\')))
      return bad_key("the key has a backslash before a character other than a quote or backslash");
    if (!is_printable(value[at]))
      return bad_key("the key has characters that are not printable ASCII");
    key += value[at];
  }
  if (at >= value.size()) return bad_key("the key has no closing quote");
  const std::string_view rest = trimmed(value.substr(at + 1));
  if (!rest.empty() && rest.front() != ';') return bad_key("the header has more than one key");
  return key;
}

// Clients that do not know structured fields send the key without quotes.
Result<std::string> parse_bare(std::string_view value) {
  for (const char c : value) {
    if (!is_printable(c) || c == ' ' || c == '"' || c == ',' || c == ';' || c == '\\')
      return bad_key("the key has no quotes, but has a character that requires them");
  }
  return std::string(value);
}

void add_sized(Sha256& hash, std::string_view bytes) {
  std::array<char, 8> size{};
  for (std::size_t i = 0; i < size.size(); ++i)
    size[i] = static_cast<char>(std::uint64_t{bytes.size()} >> (8 * (7 - i)) & 0xff);
  hash.add({size.data(), size.size()}).add(bytes);
}

void add_member(std::string& json, std::string_view name, std::string_view text) {
  std::string quoted(quoted_bytes(text), '\0');
  write_quoted(text, quoted.data());
  json += json.size() > 1 ? ", \"" : "\"";
  json += name;
  json += "\": " + quoted;
}

constexpr std::string_view kTypes = "urn:dovetail:idempotency:";

}  // namespace

std::string_view to_string(RequestState state) {
  switch (state) {
    case RequestState::first:
      return "first";
    case RequestState::finished:
      return "finished";
    case RequestState::running:
      return "running";
    case RequestState::unknown:
      return "unknown";
    case RequestState::mismatch:
      return "mismatch";
  }
  return "unknown";
}

Result<std::string> parse_idempotency_key(std::string_view value, bool quoted_only) {
  value = trimmed(value);
  if (value.empty()) return bad_key("the key is empty");
  if (value.front() != '"' && quoted_only) return bad_key("the key has no quotes");
  Result<std::string> key = value.front() == '"' ? parse_quoted(value) : parse_bare(value);
  if (!key) return key;
  if (key->empty()) return bad_key("the key is empty");
  if (key->size() > kKeyBytesMax)
    return bad_key("the key has " + std::to_string(key->size()) + " characters");
  return key;
}

std::string request_fingerprint(std::string_view method, std::string_view target,
                                std::string_view body) {
  Sha256 hash;
  for (const std::string_view part : {method, target, body}) add_sized(hash, part);
  return hash.finish();
}

std::string request_scope(std::string_view service, std::string_view identity) {
  std::string scope(service);
  if (!identity.empty()) scope += "/" + to_hex(Sha256().add(identity).finish()).substr(0, 32);
  return scope;
}

std::string shown_key(std::string_view key) {
  return to_hex(Sha256().add(key).finish()).substr(0, 12);
}

RequestState decide_request(const RequestRow& row, bool retry_unknown) {
  if (!row.is_finished && row.same_token) return RequestState::first;
  if (row.is_expired && (row.is_finished || !row.is_leased)) return RequestState::first;
  if (!row.same_fingerprint) return RequestState::mismatch;
  if (row.is_finished) return RequestState::finished;
  if (row.is_leased) return RequestState::running;
  return retry_unknown ? RequestState::first : RequestState::unknown;
}

std::string Problem::to_json() const {
  std::string json = "{";
  add_member(json, "type", type);
  add_member(json, "title", title);
  json += ", \"status\": " + std::to_string(status);
  add_member(json, "detail", detail);
  return json + "}";
}

std::optional<Problem> problem_of(const RequestTicket& ticket) {
  const std::string types(kTypes);
  switch (ticket.state) {
    case RequestState::first:
    case RequestState::finished:
      return std::nullopt;
    case RequestState::running:
      // The request may finish long before its lease ends.
      return Problem{409, types + "running", "A request with this key is being processed",
                     "Send the same request with the same key again in a moment: it gets the "
                     "answer of the first.",
                     1};
    case RequestState::unknown:
      return Problem{409, types + "outcome-unknown",
                     "The outcome of the first request with this key is unknown",
                     "It started and never finished, so it may or may not have taken effect. It is "
                     "not run again. Check the effect; if there is none, send the request with "
                     "a new key."};
    case RequestState::mismatch:
      return Problem{
          422, types + "key-reused", "This key was used for another request",
          "The method, the path, the body or the login differ from the first request with "
          "this key. Use a new key for a new request, and repeat a request unchanged."};
  }
  return std::nullopt;
}

Problem key_problem(std::string_view why) {
  const std::string types(kTypes);
  if (!why.empty())
    return Problem{400, types + "key-invalid", "The header Idempotency-Key is not valid",
                   std::string(why)};
  return Problem{400, types + "key-missing", "The header Idempotency-Key is missing",
                 "This request changes something and is safe to repeat only with a key. Send a "
                 "header such as Idempotency-Key: \"8e03978e-40d5-43dd-bc93-6894a57f9324\": a new "
                 "key for each operation, the same key for each repeat."};
}

}  // namespace dovetail
