#include "console/listener.h"

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "console/sign_in.h"
#include "core/ascii.h"
#include "server/header_field.h"
#include "server/path.h"

namespace dovetail::console {
namespace {

constexpr std::size_t kBodyBytesMax = 8 << 20;  // a payload of 1 MiB, escaped
constexpr std::size_t kReceivingBytesMax = 32 << 20;
constexpr std::size_t kWaitingMax = 256;
constexpr std::size_t kShownMax = 200;  // of a path, in the log
constexpr auto kLookPause = std::chrono::milliseconds(100);

http::EndpointOptions endpoint_options(const config::HttpConfig& http) {
  http::EndpointOptions options = http.endpoint;
  options.body_bytes_max = kBodyBytesMax;
  options.waiting_bytes_max = kReceivingBytesMax;
  options.waiting_max = kWaitingMax;
  return options;
}

GuardOptions guard_options(const config::HttpConfig& http) {
  return {http.endpoint.address, http.hosts, http.role_without_token(),
          !http.endpoint.cert_file.empty()};
}

Reply finished(Reply reply) {
  add_security_headers(reply);
  return reply;
}

Reply stopping() {
  Reply reply = error_reply(503, "stopping", "the daemon is stopping");
  reply.retry_after_s = 1;
  return reply;
}

Reply busy() {
  Reply reply = error_reply(503, "busy",
                            "too many requests are waiting for a database; nothing was done, try "
                            "again in a moment");
  reply.retry_after_s = 1;
  return reply;
}

Reply run_handler(const Route& route, const Request& request, const Identity& identity,
                  const std::function<void(const std::string&)>& warn) {
  try {
    return route.handle(request, identity);
  } catch (const std::exception& error) {
    warn("internal error: " + route.method + " " + route.path + ": " + error.what() +
         "; please report it");
    return error_reply(500, "internal", "internal error; the log of the daemon has the reason");
  }
}

}  // namespace

// A worker answers through the desk, and so does the thread that watches over patience.
struct Listener::Desk {
  struct Waiting {
    http::Request* request = nullptr;
    TimePoint until{};
    bool changes = false;
  };

  std::mutex mutex{};
  std::condition_variable changed{};
  http::Endpoint* endpoint = nullptr;  // null: the listener has gone
  std::map<std::uint64_t, Waiting> waiting{};
  std::uint64_t next = 1;
  bool is_ending = false;
  std::thread patience{};

  // None: we are stopping.
  std::optional<std::uint64_t> add(http::Request& request, TimePoint until, bool changes) {
    const std::lock_guard lock(mutex);
    if (is_ending) return std::nullopt;
    waiting.emplace(next, Waiting{&request, until, changes});
    changed.notify_all();
    return next++;
  }
  // Nobody may wait for it any more: then nothing happens.
  void answer(std::uint64_t number, Reply reply) {
    const std::lock_guard lock(mutex);
    const auto found = waiting.find(number);
    if (found == waiting.end()) return;
    endpoint->answer(*found->second.request, finished(std::move(reply)));
    waiting.erase(found);
  }
  void forget(std::uint64_t number) {
    const std::lock_guard lock(mutex);
    waiting.erase(number);
  }
  void answer_all() {
    const std::lock_guard lock(mutex);
    for (const auto& [number, one] : waiting) endpoint->answer(*one.request, finished(stopping()));
    waiting.clear();
    is_ending = true;
    changed.notify_all();
  }
  void answer_late(TimePoint now) {  // REQUIRES: mutex is held
    for (auto one = waiting.begin(); one != waiting.end();) {
      if (one->second.until > now) {
        ++one;
        continue;
      }
      const std::string_view text =
          one->second.changes
              ? "a database does not answer; whether the change was made is unknown, look before "
                "you repeat it"
              : "a database does not answer; try again later";
      endpoint->answer(*one->second.request, finished(error_reply(504, "late", text)));
      one = waiting.erase(one);
    }
  }
  void watch(Clock& clock) {
    std::unique_lock lock(mutex);
    while (!is_ending) {
      if (waiting.empty())
        changed.wait(lock);
      else
        changed.wait_for(lock, kLookPause);
      answer_late(clock.now());
    }
  }
};

Listener::Listener(ListenerOptions options, std::vector<Route> routes, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      guard_(guard_options(options_.http), tokens_),
      routes_(with_sign_in(std::move(routes), guard_, tokens_, clock)),
      desk_(std::make_shared<Desk>()),
      endpoint_(endpoint_options(options_.http), clock, *this),
      workers_(options_.workers, options_.queue_max) {
  if (!options_.http.tokens_file.empty()) tokens_file_.emplace(options_.http.tokens_file, tokens_);
  desk_->endpoint = &endpoint_;
}

Listener::~Listener() {
  endpoint_.stop_listening();
  desk_->answer_all();
  if (desk_->patience.joinable()) desk_->patience.join();
}

Status Listener::start() {
  if (tokens_file_) DOVETAIL_TRY(tokens_file_->load());
  DOVETAIL_TRY(endpoint_.listen());
  desk_->patience = std::thread([desk = desk_, &clock = clock_] { desk->watch(clock); });
  return {};
}

void Listener::follow_tokens() {
  if (!tokens_file_) return;
  if (const Status followed = tokens_file_->follow(clock_.now()); !followed)
    options_.warn("the tokens stay as they were: " + followed.error().text);
}

Listener::Judged Listener::refuse(const http::Request& request, const Route* route,
                                  Refusal refusal) {
  options_.refused({refusal.identity.name, std::string(request.method),
                    std::string(request.target.substr(0, kShownMax)), request.peer, refusal.code,
                    route != nullptr && route->kind == Route::Kind::changes});
  Judged judged;
  judged.reply = std::move(refusal.reply);
  return judged;
}

Listener::Judged Listener::judge(const http::Request& request) {
  Judged judged;
  if (auto refusal = guard_.check_origin(request))
    return refuse(request, nullptr, std::move(*refusal));
  if (const std::string_view why = http::why_unsafe_path(request.target); !why.empty()) {
    judged.reply = error_reply(400, "path", "the path is ambiguous: " + std::string(why));
    return judged;
  }
  judged.found = routes_.find(request.method, request.target);
  if (judged.found.route == nullptr) {
    const std::string& allowed = judged.found.allowed;
    judged.reply = allowed.empty() ? error_reply(404, "path", "there is nothing at this path")
                                   : error_reply(405, "method", "this path takes " + allowed);
    if (!allowed.empty()) judged.reply->headers.push_back({"Allow", allowed});
    return judged;
  }
  judged.identity = guard_.identify(request, port(), clock_.wall());
  if (auto refusal = guard_.check_right(request, *judged.found.route, judged.identity))
    return refuse(request, judged.found.route, std::move(*refusal));
  return judged;
}

std::optional<Reply> Listener::begin(const http::Request& request) {
  follow_tokens();
  Judged judged = judge(request);
  if (!judged.reply) return std::nullopt;
  return finished(std::move(*judged.reply));
}

Request Listener::copy_of(const http::Request& request, Found& found) const {
  Request copy;
  copy.method = request.method;
  copy.path = request.target;
  copy.places = std::move(found.places);
  copy.body = request.body;
  copy.peer = request.peer;
  copy.has_tls = guard_.has_tls();
  copy.port = port();
  for (const MessageHeader& one : request.headers)
    copy.headers.push_back({to_lower(one.name), std::string(one.value)});
  return copy;
}

std::optional<Reply> Listener::take(http::Request& request) {
  // Judged again rather than remembered: it is quick, and tokens may have changed meanwhile.
  Judged judged = judge(request);
  if (judged.reply) return finished(std::move(*judged.reply));
  if (request.body_too_large)
    return finished(error_reply(413, "body", "the body is too large; the limit is 8 MiB"));
  if (request.no_room) return finished(busy());
  const std::string_view uri = request.uri;
  auto query = parse_query(uri.substr(std::min(request.target.size() + 1, uri.size())));
  if (!query)
    return finished(error_reply(400, "query", "the query is malformed, or a name is in it twice"));
  const Route& route = *judged.found.route;
  Request copy = copy_of(request, judged.found);
  copy.query = std::move(*query);
  if (route.where == Route::Where::listener)
    return finished(run_handler(route, copy, judged.identity, options_.warn));
  const auto number =
      desk_->add(request, clock_.now() + options_.patience, route.kind == Route::Kind::changes);
  if (!number) return finished(stopping());
  // The route is copied: a worker may be at it when the table has gone.
  const bool is_handed = workers_.hand(
      [desk = desk_, number = *number, route, warn = options_.warn, request = std::move(copy),
       who = judged.identity] { desk->answer(number, run_handler(route, request, who, warn)); });
  if (is_handed) return std::nullopt;
  desk_->forget(*number);
  return finished(busy());
}

}  // namespace dovetail::console
