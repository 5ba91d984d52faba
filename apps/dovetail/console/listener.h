// The HTTP listener of the daemon. Its thread judges each request and hands it to a worker, which
// may wait for a database; routes that wait for nothing are answered at once, whatever hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "console/guard.h"
#include "console/route.h"
#include "console/tokens.h"
#include "console/workers.h"
#include "core/clock.h"
#include "dovetail/result.h"
#include "server/endpoint.h"

namespace dovetail::console {

// A request that somebody may not make, for the log and the audit.
struct Refused {
  std::string who;  // the name of a token, or "anonymous"
  std::string method;
  std::string path;
  std::string peer;
  std::string code;  // as in the answer: "token", "role", "host", "origin", ...
  bool would_change = false;
};

// Of a client, for a handler.
inline constexpr Duration kPatience = std::chrono::seconds(30);

struct ListenerOptions {
  config::HttpConfig http{};
  std::size_t workers = 4;
  std::size_t queue_max = 64;
  Duration patience = kPatience;
  // On the listener's thread: they must not wait. `warn` gets what the operator should read.
  std::function<void(const Refused&)> refused = [](const Refused&) {};
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// Threads: start() and the destructor by one. `clock` outlives it; what handlers use lives until
// they have ended, which may be after the listener: they own it.
class Listener final : private http::RequestHandler {
 public:
  Listener(ListenerOptions options, std::vector<Route> routes, Clock& clock);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() override;  // open requests are answered with 503

  // unavailable: the address is taken, or the tokens cannot be read; it may be called again.
  // rejected: the options or the tokens are wrong.
  Status start();
  bool is_listening() const { return endpoint_.is_listening(); }
  std::uint16_t port() const { return endpoint_.port(); }
  const RouteTable& routes() const { return routes_; }

 private:
  struct Desk;  // requests that wait for a worker; outlives us in the hands of workers
  struct Judged {
    Found found{};
    Identity identity{};
    std::optional<Reply> reply{};  // it ends here
  };

  std::optional<Reply> begin(const http::Request& request) override;
  std::optional<Reply> take(http::Request& request) override;

  Judged judge(const http::Request& request);
  Judged refuse(const http::Request& request, const Route* route, Refusal refusal);
  Request copy_of(const http::Request& request, Found& found) const;
  void follow_tokens();

  const ListenerOptions options_;
  Clock& clock_;
  Tokens tokens_;
  std::optional<TokensFile> tokens_file_;
  Guard guard_;
  RouteTable routes_;
  std::shared_ptr<Desk> desk_;
  http::Endpoint endpoint_;
  Workers workers_;
};

}  // namespace dovetail::console
