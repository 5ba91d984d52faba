#include "console/api/call.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/event/time_text.h"

namespace dovetail::console {
namespace {

constexpr std::size_t kReasonMax = 1800;  // bytes; databases keep 2000 with the name

Reply reply_of(const app::Failure& failure) {
  switch (failure.exit) {
    case Exit::usage:
      return error_reply(400, "usage", failure.text);
    case Exit::negative:
      return error_reply(404, "missing", failure.text);
    case Exit::rejected:
      return error_reply(422, "rejected", failure.text);
    case Exit::unavailable:
    case Exit::config:
      return error_reply(503, "unavailable", failure.text);
    case Exit::ok:
    case Exit::corrupt:
      break;
  }
  return error_reply(500, "corrupt", failure.text);
}

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string list_of(std::span<const std::string_view> names) {
  std::string list;
  for (const std::string_view name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return list.empty() ? "none" : list;
}

}  // namespace

Route::Handle answering(Call call) {
  return [call = std::move(call)](const Request& request, const Identity& who) {
    const Expected<Json> answer = call(request, who);
    if (!answer) return reply_of(answer.error());
    // Invalid bytes out of a database become U+FFFD.
    return json_reply(answer->dump(-1, ' ', false, Json::error_handler_t::replace));
  };
}

Expected<bool> check_query(const Request& request, std::initializer_list<std::string_view> names) {
  return check_query(request, std::span(names.begin(), names.size()));
}

Expected<bool> check_query(const Request& request, std::span<const std::string_view> names) {
  for (const auto& [name, value] : request.query)
    if (!is_among(name, names))
      return refuse(Exit::usage,
                    "unknown name in the query: \"" + name + "\"; known: " + list_of(names));
  return true;
}

Expected<std::size_t> limit_of(const Request& request) {
  const std::string_view text = request.asked("limit");
  if (text.empty()) return 50;
  std::size_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc() || end != text.data() + text.size() || limit < 1 || limit > kRowsMax)
    return refuse(Exit::usage, "limit must be a number from 1 to " + std::to_string(kRowsMax));
  return limit;
}

Expected<std::optional<WallTime>> time_of(const Request& request, std::string_view name) {
  const std::string_view text = request.asked(name);
  if (text.empty()) return std::optional<WallTime>();
  const auto time = parse_time(text);
  if (!time)
    return refuse(Exit::usage, std::string(name) + " must be a time, such as 2026-01-31T09:05:00Z");
  return time;
}

Expected<EventId> id_of(const Request& request) {
  auto id = EventId::parse(request.places.find("id")->second);
  if (!id) return refuse(Exit::usage, id.error().text);
  return *id;
}

app::Expected<std::vector<const config::StoreConfig*>> databases_of(const config::Config& config,
                                                                    std::string_view name) {
  std::vector<const config::StoreConfig*> all;
  for (const config::StoreConfig& store : config.stores)
    if (!store.is_broker() && (name.empty() || store.name == name)) all.push_back(&store);
  if (all.empty() && !name.empty())
    return app::refuse(app::Exit::usage,
                       "the config has no database \"" + std::string(name) + "\"");
  return all;
}

Expected<Page> page_of(const config::Config& config, const Request& request,
                       std::initializer_list<std::string_view> names) {
  std::vector<std::string_view> known = names;
  known.insert(known.end(), {"store", "after", "limit"});
  const auto named = check_query(request, known);
  if (!named) return tl::unexpected(named.error());
  const auto limit = limit_of(request);
  if (!limit) return tl::unexpected(limit.error());
  auto after = Cursor::parse(request.asked("after"));
  if (!after) return tl::unexpected(after.error());
  auto stores = databases_of(config, request.asked("store"));
  if (!stores) return tl::unexpected(stores.error());
  return Page{*limit, std::move(*after), std::move(*stores)};
}

Expected<Json> body_of(const Request& request, std::initializer_list<std::string_view> names) {
  Json body = Json::parse(request.body, nullptr, false);
  if (!body.is_object()) return refuse(Exit::usage, "the body must be a JSON object");
  for (const auto& [name, value] : body.items())
    if (!is_among(name, names))
      return refuse(Exit::usage,
                    "unknown name in the body: \"" + name + "\"; known: " + list_of(names));
  return body;
}

Expected<std::string> text_in(const Json& body, const char* name) {
  if (!body.contains(name)) return std::string();
  if (!body[name].is_string()) return refuse(Exit::usage, std::string(name) + " must be a text");
  return body[name].get<std::string>();
}

Expected<bool> flag_in(const Json& body, const char* name) {
  if (!body.contains(name)) return false;
  if (!body[name].is_boolean())
    return refuse(Exit::usage, std::string(name) + " must be true or false");
  return body[name].get<bool>();
}

Expected<std::string> reason_in(const Json& body) {
  auto reason = text_in(body, "reason");
  if (!reason) return reason;
  if (reason->find_first_not_of(" \t\r\n") == std::string::npos)
    return refuse(Exit::usage, "this needs a reason, which is recorded");
  if (reason->size() > kReasonMax)
    return refuse(Exit::usage,
                  "the reason has more than " + std::to_string(kReasonMax) + " bytes; shorten it");
  return reason;
}

Expected<Decision> decision_of(const Request& request) {
  const auto id = id_of(request);
  if (!id) return tl::unexpected(id.error());
  const auto body = body_of(request, {"reason"});
  if (!body) return tl::unexpected(body.error());
  auto reason = reason_in(*body);
  if (!reason) return tl::unexpected(reason.error());
  return Decision{*id, std::move(*reason)};
}

Json json_of(const std::vector<Silent>& silent) {
  Json list = Json::array();
  for (const Silent& one : silent) list.push_back({{"store", one.store}, {"text", one.text}});
  return list;
}

std::string spoken_reason(const Request& request, const Identity& who, const std::string& reason) {
  const std::string name =
      who.proof == Identity::Proof::none ? "anonymous at " + request.peer : who.name;
  return name + std::string(kByConsole) + reason;
}

}  // namespace dovetail::console
