#include "console/route.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/check.h"
#include "server/path.h"

namespace dovetail::console {
namespace {

using Places = std::map<std::string, std::string, std::less<>>;

// Takes the part up to the next slash.
std::string_view next_part(std::string_view& path) {
  const std::size_t end = std::min(path.find('/'), path.size());
  const std::string_view part = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  return part;
}

std::size_t parts_of(std::string_view path) {
  return static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
}

bool is_place(std::string_view part) { return part.starts_with('{') && part.ends_with('}'); }

// Whether the path has the form of the pattern; then `places` has what stands for its names.
bool matches(std::string_view pattern, std::string_view path, Places& places) {
  if (parts_of(pattern) != parts_of(path)) return false;
  places.clear();
  while (!pattern.empty()) {
    const std::string_view wanted = next_part(pattern);
    const std::string_view part = next_part(path);
    if (!is_place(wanted)) {
      if (wanted != part) return false;
      continue;
    }
    auto decoded = http::percent_decoded(part);
    if (!decoded || decoded->empty()) return false;
    places.emplace(wanted.substr(1, wanted.size() - 2), std::move(*decoded));
  }
  return path.empty();
}

// Whether a path could have the form of both.
bool overlap(std::string_view one, std::string_view other) {
  if (parts_of(one) != parts_of(other)) return false;
  while (!one.empty() || !other.empty()) {
    const std::string_view a = next_part(one);
    const std::string_view b = next_part(other);
    if (a != b && !is_place(a) && !is_place(b)) return false;
  }
  return true;
}

void check(const Route& route) {
  const bool reads = route.kind == Route::Kind::reads;
  DOVETAIL_CHECK(reads == (route.method == "GET"));
  DOVETAIL_CHECK(route.path.starts_with('/') && route.handle != nullptr);
}

}  // namespace

std::string_view Request::header(std::string_view lower_name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const Header& one) { return one.name == lower_name; });
  return found == headers.end() ? std::string_view() : found->value;
}

std::string_view Request::asked(std::string_view name) const {
  const auto found = query.find(name);
  return found == query.end() ? std::string_view() : found->second;
}

RouteTable::RouteTable(std::vector<Route> routes) : routes_(std::move(routes)) {
  for (auto one = routes_.begin(); one != routes_.end(); ++one) {
    check(*one);
    DOVETAIL_CHECK(std::none_of(routes_.begin(), one, [&](const Route& other) {
      return other.method == one->method && overlap(other.path, one->path);
    }));
  }
}

Found RouteTable::find(std::string_view method, std::string_view path) const {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  Found found;
  for (const Route& route : routes_) {
    if (!matches(route.path, path, found.places)) continue;
    if (route.method == wanted) {
      found.route = &route;
      return found;
    }
    const std::string name = route.method == "GET" ? "GET, HEAD" : route.method;
    found.allowed += (found.allowed.empty() ? "" : ", ") + name;
  }
  found.places.clear();
  return found;
}

std::optional<Places> parse_query(std::string_view query) {
  Places all;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    std::string value(part.substr(std::min(equals + 1, part.size())));
    std::replace(value.begin(), value.end(), '+', ' ');
    auto name = http::percent_decoded(part.substr(0, equals));
    auto decoded = http::percent_decoded(value);
    if (!name || !decoded || !all.emplace(std::move(*name), std::move(*decoded)).second)
      return std::nullopt;
  }
  return all;
}

Reply json_reply(std::string json, unsigned status) {
  Reply reply;
  reply.status = status;
  reply.headers.push_back({"Content-Type", "application/json"});
  reply.body = std::move(json) + "\n";
  return reply;
}

Reply error_reply(unsigned status, std::string_view code, std::string_view text) {
  const nlohmann::ordered_json error{{"error", {{"code", code}, {"text", text}}}};
  // Invalid bytes of what a client sent become U+FFFD.
  return json_reply(error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), status);
}

}  // namespace dovetail::console
