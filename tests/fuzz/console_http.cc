// Requests to the console, from the guard to the handlers, over a config without stores. Nobody
// gets in without a token or from another page; whatever is asked, every answer has its form.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "console/api/api.h"
#include "console/api/call.h"
#include "console/api/cursor.h"
#include "console/api/payload.h"
#include "console/guard.h"
#include "console/health.h"
#include "console/pages/pages.h"
#include "console/sign_in.h"
#include "core/ascii.h"
#include "documents/orders.h"
#include "fuzz/fuzz.h"
#include "host/host.h"
#include "server/address.h"
#include "server/header_field.h"
#include "server/path.h"

using namespace dovetail;
using namespace dovetail::console;

namespace {

constexpr std::string_view kToken = "a-token-that-nobody-may-guess";
constexpr std::string_view kHost = "console.example";
constexpr std::uint16_t kPort = 80;
constexpr WallTime kNow{std::chrono::seconds(1'700'000'000)};
const Identity kOperator{"olga", Role::operator_, Identity::Proof::bearer};

struct World {
  config::Config config{};
  Roster roster{};
  Tokens tokens{};
  std::string session{};
  Guard guard{{"127.0.0.1", {std::string(kHost)}, Role::nobody, false}, tokens};
  RouteTable routes{all_routes()};

  World() {
    tokens.set({{Role::operator_, "olga", std::string(kToken)}});
    session = *tokens.open_session(kToken, kNow);
  }
  std::vector<Route> all_routes() {
    auto all = api_routes(std::make_shared<Desk>(Desk{config, roster, system_clock(), nullptr,
                                                      std::make_shared<History>(),
                                                      std::make_shared<Refusals>(), WallTime{}}));
    for (auto&& some : {page_routes(), health_routes()})
      all.insert(all.end(), some.begin(), some.end());
    return with_sign_in(std::move(all), guard, tokens, system_clock());
  }
};

World& world() {
  static World one;
  return one;
}

std::string_view next_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

std::string encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

void check_query(std::string_view text) {
  const auto query = parse_query(text);
  if (!query) return;
  std::string again;
  for (const auto& [name, value] : *query) again += "&" + encoded(name) + "=" + encoded(value);
  FUZZ_REQUIRE(parse_query(again) == query);
  console::Request request;
  request.query = *query;
  if (const auto limit = limit_of(request)) FUZZ_REQUIRE(*limit >= 1 && *limit <= kRowsMax);
  (void)time_of(request, "from");
}

void check_texts(std::string_view text) {
  check_query(text);
  if (const auto cursor = Cursor::parse(text)) {
    const auto again = Cursor::parse(cursor->text());
    FUZZ_REQUIRE(again && again->text() == cursor->text());
    FUZZ_REQUIRE(text.empty() || cursor->of("orders").value_or(0) >= 0);
  }
  FUZZ_REQUIRE(http::percent_decoded(encoded(text)) == text);
  if (const auto decoded = http::percent_decoded(text))
    FUZZ_REQUIRE(decoded->size() <= text.size());
  const auto seek = app::parse_seek(std::string(text));
  FUZZ_REQUIRE(!seek || seek->kind != SeekTo::Kind::position ||
               app::parse_seek(std::to_string(seek->position))->position == seek->position);
  // A whole range has every address, and none of another length has a range.
  if (http::AddressRange::parse(text))
    FUZZ_REQUIRE(text.find_first_not_of("0123456789abcdefABCDEF:./") == std::string_view::npos);
}

// What the guard must have seen in a host that it takes for ours.
bool could_be_ours(std::string_view host) {
  const std::string lower = to_lower(host.substr(host.starts_with('[') ? 1 : 0));
  for (const std::string_view name :
       {kHost, std::string_view("localhost"), std::string_view("::1"), std::string_view("127.")})
    if (lower.starts_with(name)) return true;
  return false;
}

void check_reply(const http::Reply& reply) {
  FUZZ_REQUIRE(reply.status == 200 || (reply.status >= 400 && reply.status < 500));
  if (reply.status == 200) return;
  const auto json = nlohmann::json::parse(reply.body);
  FUZZ_REQUIRE(!json["error"]["code"].get<std::string>().empty());
  FUZZ_REQUIRE(!json["error"]["text"].get<std::string>().empty());
}

void check_edit(const console::Request& request) {
  const auto body = body_of(request, {"id", "payload", "headers", "reason"});
  if (!body) {
    FUZZ_REQUIRE(!body.error().text.empty());
    return;
  }
  if (const auto edit = edit_of(request, *body))
    FUZZ_REQUIRE(edit->id != edit->replaced && !edit->reason.empty());
  const EventId replaced{};
  if (const auto headers = edited_headers(*body, request.body, replaced)) {
    std::size_t named = 0;
    for (const Header& one : *headers) named += one.name == kReplaces ? 1 : 0;
    FUZZ_REQUIRE(named == 1 && headers->back().value == replaced.to_string());
  }
}

void handle(const http::Request& request, const Found& found) {
  for (const auto& [name, value] : found.places) FUZZ_REQUIRE(!name.empty() && !value.empty());
  console::Request copy;
  copy.method = request.method;
  copy.path = request.target;
  copy.places = found.places;
  copy.body = request.body;
  copy.port = kPort;
  auto query = parse_query(std::string_view(request.uri)
                               .substr(std::min(request.target.size() + 1, request.uri.size())));
  if (!query) return;
  copy.query = std::move(*query);
  const http::Reply reply = found.route->handle(copy, kOperator);
  check_reply(reply);
  if (found.route->path == "/api/v1/session" && reply.status == 401)
    FUZZ_REQUIRE(reply.body.size() < 200 && reply.headers.size() == 1);
  if (found.places.contains("id")) check_edit(copy);
}

}  // namespace

// "METHOD URI", then headers, an empty line, and the body.
void check_input(std::string_view input) {
  check_texts(input);
  World& all = world();
  const bool knows_secret = input.find(kToken) != std::string_view::npos ||
                            input.find(all.session) != std::string_view::npos;
  std::string_view rest = input;
  const std::string_view first = next_line(rest);
  const std::size_t blank = std::min(first.find(' '), first.size());
  http::Request request;
  request.method = first.substr(0, blank);
  request.uri = first.substr(std::min(blank + 1, first.size()));
  request.target = std::string_view(request.uri).substr(0, request.uri.find('?'));
  for (std::string_view line = next_line(rest); !line.empty(); line = next_line(rest)) {
    const std::size_t colon = std::min(line.find(':'), line.size());
    request.headers.push_back(
        {line.substr(0, colon), line.substr(std::min(colon + 2, line.size()))});
  }
  request.body = rest;

  if (const auto refusal = all.guard.check_origin(request))
    check_reply(refusal->reply);
  else
    FUZZ_REQUIRE(could_be_ours(request.header("host")));
  const Identity who = all.guard.identify(request, kPort, kNow);
  FUZZ_REQUIRE(who.role == Role::nobody || (knows_secret && who.name == "olga"));
  if (!http::why_unsafe_path(request.target).empty()) return;
  const Found found = all.routes.find(request.method, request.target);
  if (found.route == nullptr) return;
  FUZZ_REQUIRE(found.route->method == (request.method == "HEAD" ? "GET" : request.method));
  const auto refusal = all.guard.check_right(request, *found.route, who);
  FUZZ_REQUIRE(refusal || who.role >= found.route->role);
  if (refusal) check_reply(refusal->reply);
  handle(request, found);
}

std::vector<std::string_view> seed_inputs() {
  static const std::string cookie =
      "POST /api/v1/doctor HTTP/1.1\nHost: CONSOLE.example:80\nCookie: a=b; dovetail_80=" +
      world().session +
      "\nOrigin: http://console.example:80\nContent-Type: "
      "application/json\n\n{}";
  return {
      cookie,
      "GET /api/v1/events?limit=5&from=2026-01-31T09:05:00Z&q=a%20b+c&after=orders:17,shop:2\n"
      "Host: 127.0.0.1:80\nAuthorization: Bearer a-token-that-nobody-may-guess\n\n",
      "GET /api/v1/parked/a%2Fb?after=orders:1&limit=200\nHost: [::1]:80\nSec-Fetch-Site: "
      "cross-site\nSec-Fetch-Mode: navigate\n\n",
      "POST /api/v1/session\nHost: localhost\nContent-Type: application/json; charset=utf-8\n\n"
      R"({"token":"a-token-that-somebody-guesses"})",
      "POST /api/v1/events/01932b7e-0000-7000-8000-000000000001/edit\nHost: localhost.\n\n"
      R"({"id":"01932b7e-0000-7000-8000-000000000002","payload":"{}",)"
      R"("headers":{"a":"b"},"reason":"x"})",
      "POST /api/v1/events/01932b7e-0000-7000-8000-000000000001/edit\nHost: localhost\n\n"
      R"({"dovetail-replaces":"b","reason":"x"})",
      "POST /api/v1/parked/replay\nHost: localhost\n\n"
      R"({"ids":["01932b7e-0000-7000-8000-000000000001"],"limit":3,"after":"a:1","dry_run":true})",
      "POST /api/v1/parked/discard\nHost: localhost\n\n"
      R"({"key":"17","aggregate_type":"orders","reason":"x"})",
      "POST /api/v1/relays/orders-to-bus/pause\nHost: localhost\n\n"
      R"({"reason":"x","dry_run":false})",
      "GET /api/v1/history?relay=a&steps=hour\nHost: localhost\n\n",
      "HEAD /app.js\nHost: evil.example\nOrigin: null\n\n",
      "PUT /api/v1/../status\nHost:\n\n",
      "a=1&b=%zz&a=2",
      "orders:17,shop:4711",
      "10.0.0.0/8"};
}
