#include "console/sign_in.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::console {
namespace {

using Json = nlohmann::ordered_json;

std::string cookie_text(const Guard& guard, std::uint16_t port, const std::string& value,
                        std::chrono::seconds holds) {
  std::string text = guard.cookie_name(port) + "=" + value + "; Path=/; HttpOnly; SameSite=Strict";
  text += "; Max-Age=" + std::to_string(holds.count());
  return guard.has_tls() ? text + "; Secure" : text;
}

Reply who_am_i(const Identity& identity) {
  const bool has_token = identity.proof != Identity::Proof::none;
  return json_reply(Json{{"name", has_token ? Json(identity.name) : Json(nullptr)},
                         {"role", to_string(identity.role)}}
                        .dump());
}

Reply sign_in(const Request& request, const Guard& guard, const Tokens& tokens, Clock& clock) {
  const auto body = nlohmann::json::parse(request.body, nullptr, false);
  if (!body.is_object() || !body.contains("token") || !body["token"].is_string())
    return error_reply(400, "body", "send {\"token\": \"...\"}");
  const std::string secret = body["token"];
  const auto session = tokens.open_session(secret, clock.wall());
  const auto identity = tokens.find(secret);
  if (!session || !identity)
    return error_reply(401, "token", "the token is not known; check http.tokens_file");
  Reply reply = who_am_i(*identity);
  reply.headers.push_back(
      {"Set-Cookie", cookie_text(guard, request.port, *session, Tokens::kSessionHolds)});
  return reply;
}

}  // namespace

std::vector<Route> with_sign_in(std::vector<Route> routes, const Guard& guard, const Tokens& tokens,
                                Clock& clock) {
  using Kind = Route::Kind;
  constexpr auto kHere = Route::Where::listener;
  const std::string path = "/api/v1/session";
  routes.push_back({"GET", path, Role::nobody, Kind::reads,
                    [](const Request&, const Identity& who) { return who_am_i(who); }, kHere});
  routes.push_back({"POST", path, Role::nobody, Kind::changes,
                    [&](const Request& request, const Identity&) {
                      return sign_in(request, guard, tokens, clock);
                    },
                    kHere});
  routes.push_back({"DELETE", path, Role::nobody, Kind::changes,
                    [&guard](const Request& request, const Identity&) {
                      Reply reply = json_reply("{}");
                      reply.headers.push_back({"Set-Cookie", cookie_text(guard, request.port, "",
                                                                         std::chrono::seconds(0))});
                      return reply;
                    },
                    kHere});
  return routes;
}

}  // namespace dovetail::console
