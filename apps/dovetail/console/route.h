// What the console answers: one table of routes, each with who may use it and what it does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "server/endpoint.h"

namespace dovetail::console {

using config::Role;
using http::Reply;

// Who asks.
struct Identity {
  std::string name = "anonymous";  // as the audit says it: that of the token
  Role role = Role::nobody;
  enum class Proof : std::uint8_t { none, bearer, cookie } proof = Proof::none;
};

// One request as a handler sees it; it owns all that it says.
struct Request {
  std::string method;
  std::string path;                                        // as it was sent, without the query
  std::map<std::string, std::string, std::less<>> places;  // what stands for {name} of the pattern
  std::map<std::string, std::string, std::less<>> query;   // decoded
  std::vector<Header> headers;                             // names in small letters
  std::string body;
  std::string peer;  // the address of the other side
  bool has_tls = false;
  std::uint16_t port = 0;  // that it came to

  std::string_view header(std::string_view lower_name) const;  // the first; empty: none
  // Of the query; empty: it is not there.
  std::string_view asked(std::string_view name) const;
};

struct Route {
  // Whether it changes anything. What changes something needs a body of JSON, and an origin that is
  // ours where a browser asks.
  enum class Kind : std::uint8_t { reads, changes };
  // Where it runs. A handler on a worker may wait for a database for some seconds. One on the
  // listener's thread must not wait for anything, so it answers whatever hangs.
  enum class Where : std::uint8_t { worker, listener };
  using Handle = std::function<Reply(const Request&, const Identity&)>;

  std::string method;  // "GET" where it reads; HEAD comes with it
  std::string path;    // "/api/v1/parked/{group}": {name} stands for one part of a path
  Role role = Role::admin;
  Kind kind = Kind::reads;
  Handle handle;
  Where where = Where::worker;
};

// What a path leads to.
struct Found {
  const Route* route = nullptr;
  std::map<std::string, std::string, std::less<>> places{};
  std::string allowed{};  // methods of the path, where there are others: "GET, HEAD"
};

class RouteTable {
 public:
  // REQUIRES: no two routes for one request; GET reads, and what changes is not asked for by GET.
  explicit RouteTable(std::vector<Route> routes);

  Found find(std::string_view method, std::string_view path) const;
  const std::vector<Route>& all() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

// None: it is not well formed, or a name is there twice.
std::optional<std::map<std::string, std::string, std::less<>>> parse_query(std::string_view query);

// An answer as JSON text, and one that says what went wrong:
// {"error": {"code": "role", "text": "..."}}. `code` is for programs and does not change.
Reply json_reply(std::string json, unsigned status = 200);
Reply error_reply(unsigned status, std::string_view code, std::string_view text);

}  // namespace dovetail::console
