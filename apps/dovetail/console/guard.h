// Who may do what: which host was asked for, whose page asks, who it is, and what a browser may do
// with the answer. No socket and no thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "console/route.h"
#include "console/tokens.h"

namespace dovetail::console {

struct GuardOptions {
  std::string address = "127.0.0.1";  // listened at
  std::vector<std::string> hosts{};   // more names of it, in small letters
  Role without_token = Role::viewer;
  bool has_tls = false;
};

// Why a request gets no further.
struct Refusal {
  Reply reply;
  std::string code;
  Identity identity{};
};

// Any thread, after the constructor.
class Guard {
 public:
  Guard(GuardOptions options, const Tokens& tokens);

  // What holds for every request: the host it names, and the page it comes from. None: it is fine.
  std::optional<Refusal> check_origin(const http::Request& request) const;
  Identity identify(const http::Request& request, std::uint16_t port, WallTime now) const;
  // Whether `identity` may do what the route does, in the way it asks.
  std::optional<Refusal> check_right(const http::Request& request, const Route& route,
                                     const Identity& identity) const;

  bool has_tls() const { return options_.has_tls; }
  // Of the cookie of a sign-in. Cookies know no ports, so the name does: two daemons on one host
  // do not take each other's.
  std::string cookie_name(std::uint16_t port) const;

 private:
  bool is_our_host(std::string_view host) const;

  const GuardOptions options_;
  const Tokens& tokens_;
};

// Adds what tells a browser to trust the answer with as little as possible.
void add_security_headers(Reply& reply);

}  // namespace dovetail::console
