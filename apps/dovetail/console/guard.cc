#include "console/guard.h"

#include <algorithm>
#include <utility>

#include "core/ascii.h"
#include "server/header_field.h"

namespace dovetail::console {
namespace {

constexpr std::string_view kBearer = "bearer ";

// Without port and brackets, in small letters.
std::string host_name(std::string_view authority) {
  if (authority.starts_with('['))
    authority = authority.substr(1, authority.find(']') - 1);
  else
    authority = authority.substr(0, authority.find(':'));
  std::string name = to_lower(authority);
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool is_ip_address(std::string_view name) { return http::AddressRange::parse(name).has_value(); }

bool is_loopback(std::string_view name) {
  if (name == "localhost" || name == "::1") return true;
  return is_ip_address(name) && name.starts_with("127.");
}

bool is_any_address(std::string_view address) { return address == "0.0.0.0" || address == "::"; }

// The value of a cookie; empty: it is not there.
std::string_view cookie(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    std::string_view one = cookies.substr(0, cookies.find(';'));
    cookies.remove_prefix(std::min(one.size() + 1, cookies.size()));
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    if (one.starts_with(name) && one.substr(name.size()).starts_with('='))
      return one.substr(name.size() + 1);
  }
  return {};
}

bool is_json(std::string_view content_type) {
  std::string type = to_lower(content_type.substr(0, content_type.find(';')));
  while (type.ends_with(' ')) type.pop_back();
  return type == "application/json";
}

Refusal refusal(unsigned status, std::string_view code, std::string_view text,
                Identity identity = {}) {
  return {error_reply(status, code, text), std::string(code), std::move(identity)};
}

}  // namespace

Guard::Guard(GuardOptions options, const Tokens& tokens)
    : options_(std::move(options)), tokens_(tokens) {}

bool Guard::is_our_host(std::string_view host) const {
  const std::string name = host_name(host);
  if (std::find(options_.hosts.begin(), options_.hosts.end(), name) != options_.hosts.end())
    return true;
  if (name == to_lower(options_.address)) return true;
  if (is_loopback(options_.address)) return is_loopback(name);
  // A page of another host can make its own name lead to us, but not an address.
  return is_any_address(options_.address) && (is_ip_address(name) || is_loopback(name));
}

std::optional<Refusal> Guard::check_origin(const http::Request& request) const {
  const std::string_view host = request.header("host");
  if (!is_our_host(host))
    return refusal(421, "host",
                   "this is not the host that the request names; add the name to http.hosts in the "
                   "config file, or use the address of http.listen");
  const std::string_view origin = request.header("origin");
  if (!origin.empty()) {
    const std::string lower = to_lower(origin);
    const std::string ours = to_lower(host);
    if (lower != "https://" + ours && (options_.has_tls || lower != "http://" + ours))
      return refusal(403, "origin", "the request comes from a page of another site");
  }
  const std::string_view site = request.header("sec-fetch-site");
  const bool is_foreign = !site.empty() && site != "same-origin" && site != "none";
  if (is_foreign && (request.method != "GET" || request.header("sec-fetch-mode") != "navigate"))
    return refusal(403, "origin", "the request comes from a page of another site");
  return std::nullopt;
}

std::string Guard::cookie_name(std::uint16_t port) const {
  return (options_.has_tls ? "__Host-dovetail_" : "dovetail_") + std::to_string(port);
}

Identity Guard::identify(const http::Request& request, std::uint16_t port, WallTime now) const {
  const std::string_view authorization = request.header("authorization");
  if (!authorization.empty()) {
    const bool is_bearer = to_lower(authorization.substr(0, kBearer.size())) == kBearer;
    // A wrong token gives less than none: whoever sends one wants to know that it is wrong.
    if (!is_bearer) return {};
    return tokens_.find(authorization.substr(kBearer.size())).value_or(Identity{});
  }
  const std::string_view session = cookie(request.header("cookie"), cookie_name(port));
  if (!session.empty())
    if (auto identity = tokens_.find_session(session, now)) return *identity;
  Identity anonymous;
  anonymous.role = options_.without_token;
  return anonymous;
}

std::optional<Refusal> Guard::check_right(const http::Request& request, const Route& route,
                                          const Identity& identity) const {
  if (identity.role < route.role) {
    const std::string needed = "this needs the role " + std::string(to_string(route.role));
    if (identity.proof == Identity::Proof::none) {
      Refusal refused = refusal(401, "token", needed + "; sign in, or send a token", identity);
      refused.reply.headers.push_back({"WWW-Authenticate", "Bearer realm=\"dovetail\""});
      return refused;
    }
    return refusal(403, "role",
                   needed + ", and " + identity.name + " has the role " +
                       std::string(to_string(identity.role)),
                   identity);
  }
  if (route.kind == Route::Kind::reads) return std::nullopt;
  // A form of another site cannot send JSON, and a browser always says whose page a change is from.
  if (!is_json(request.header("content-type")))
    return refusal(415, "content-type", "send the body as application/json", identity);
  if (identity.proof == Identity::Proof::cookie && request.header("origin").empty())
    return refusal(403, "origin", "a change by a browser needs the header Origin", identity);
  return std::nullopt;
}

void add_security_headers(Reply& reply) {
  const auto has = [&reply](std::string_view name) {
    return std::any_of(reply.headers.begin(), reply.headers.end(),
                       [name](const Header& one) { return to_lower(one.name) == name; });
  };
  if (!has("cache-control")) reply.headers.push_back({"Cache-Control", "no-store"});
  reply.headers.push_back(
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
       "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
       "require-trusted-types-for 'script'; trusted-types 'none'"});
  reply.headers.push_back({"X-Content-Type-Options", "nosniff"});
  reply.headers.push_back({"X-Frame-Options", "DENY"});
  reply.headers.push_back({"Referrer-Policy", "no-referrer"});
  reply.headers.push_back({"Cross-Origin-Opener-Policy", "same-origin"});
  reply.headers.push_back({"Cross-Origin-Resource-Policy", "same-origin"});
}

}  // namespace dovetail::console
