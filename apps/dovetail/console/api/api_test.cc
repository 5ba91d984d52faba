#include "console/api/api.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "console/api/cursor.h"
#include "console/api/parked_groups.h"
#include "console/pages/pages.h"
#include "console/sign_in.h"
#include "console/watch/watch_routes.h"
#include "console_openapi.h"
#include "host/host.h"

namespace dovetail::console {
namespace {

std::string in_small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

struct Described {
  std::string role;
  bool has_body = false;
  std::set<std::string> places{};
  bool operator==(const Described&) const = default;
};
using Table = std::map<std::string, Described>;

Table described() {
  Table table;
  const auto document = nlohmann::json::parse(kOpenApi);
  for (const auto& [path, methods] : document["paths"].items())
    for (const auto& [method, call] : methods.items()) {
      Described& one = table[method + " " + path];
      one.role = call["x-role"];
      one.has_body = call.contains("requestBody") || method == "delete";
      for (const auto& parameter : call.value("parameters", nlohmann::json::array()))
        if (parameter["in"] == "path") one.places.insert(parameter["name"]);
    }
  return table;
}

std::set<std::string> places_of(const std::string& path) {
  std::set<std::string> places;
  for (std::size_t at = path.find('{'); at != std::string::npos; at = path.find('{', at + 1))
    places.insert(path.substr(at + 1, path.find('}', at) - at - 1));
  return places;
}

TEST(Api, EveryRouteIsDescribedAndEveryDescriptionHasItsRoute) {
  const config::Config config{};
  const Roster roster;
  const auto desk = std::make_shared<Desk>(Desk{config, roster, system_clock(), nullptr,
                                                std::make_shared<History>(),
                                                std::make_shared<Refusals>(), WallTime{}});
  const Watcher watcher(config, system_clock(), std::chrono::seconds(1));
  std::vector<Route> routes = api_routes(desk);
  for (const Route& route : watch_routes(config, roster, watcher))
    if (route.path.starts_with("/api/")) routes.push_back(route);
  Tokens tokens;
  const Guard guard({}, tokens);
  Table served;
  for (const Route& route : with_sign_in(routes, guard, tokens, system_clock())) {
    EXPECT_TRUE(route.path.starts_with("/api/v1/")) << route.path;
    served[in_small_letters(route.method) + " " + route.path] = {
        std::string(config::to_string(route.role)), route.kind == Route::Kind::changes,
        places_of(route.path)};
  }
  const Table wanted = described();
  for (const auto& [name, one] : served) {
    const auto found = wanted.find(name);
    ASSERT_NE(found, wanted.end()) << name << " is not in openapi.json";
    EXPECT_EQ(found->second.role, one.role) << name;
    EXPECT_EQ(found->second.has_body, one.has_body) << name;
    EXPECT_EQ(found->second.places, one.places) << name;
  }
  for (const auto& [name, one] : wanted)
    EXPECT_TRUE(served.contains(name)) << name << " is in openapi.json only";
}

TEST(Api, ChangesNeedAnOperator) {
  for (const auto& [name, one] : described())
    if (!name.starts_with("get ") && name.find("/session") == std::string::npos) {
      EXPECT_TRUE(one.role == "operator" || one.role == "admin") << name;
    }
}

TEST(Cursor, SaysWhereEachStoreIs) {
  const auto first = Cursor::parse("");
  EXPECT_EQ(first->of("orders"), 0);
  const auto next = Cursor::parse("orders:17,shop:4711");
  EXPECT_EQ(next->of("orders"), 17);
  EXPECT_EQ(next->of("shop"), 4711);
  EXPECT_FALSE(next->of("other"));
  EXPECT_EQ(next->text(), "orders:17,shop:4711");
  for (const char* wrong : {"orders", ":17", "orders:", "orders:x", "orders:1x", "orders:-1"})
    EXPECT_FALSE(Cursor::parse(wrong)) << wrong;
}

TEST(ParkedGroups, ReasonsThatDifferInNumbersAndIdsAreOne) {
  EXPECT_EQ(shape_of("order 17 not found"), shape_of("order 4711 not found"));
  EXPECT_EQ(shape_of("no row 0190a1b2-0000-7000-8000-00000000000a here"),
            shape_of("no row 0190ffff-0000-7000-8000-00000000000b here"));
  EXPECT_NE(shape_of("crm answered"), shape_of("erp answered"));
  ParkedRow row;
  row.relay = "relay";
  row.reason = "422: too late";
  ParkedRow other = row;
  other.reason = "409: too late";
  EXPECT_EQ(group_id("orders", row), group_id("orders", other));
  EXPECT_NE(group_id("orders", row), group_id("shop", row));
}

TEST(Pages, AreSmallAndHoldToTheirPolicy) {
  std::size_t bytes = 0;
  for (const PageFile& file : page_files()) {
    bytes += file.text.size();
    if (file.path == "/icon.svg") continue;  // its namespace is an address
    for (const char* wrong : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                              "eval(", " style=\"", "javascript:", "https://"})
      EXPECT_EQ(file.text.find(wrong), std::string_view::npos) << file.path << ": " << wrong;
  }
  EXPECT_GT(bytes, 100'000U);
  EXPECT_LT(bytes, 200'000U);
}

}  // namespace
}  // namespace dovetail::console
