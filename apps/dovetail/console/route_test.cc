#include "console/route.h"

#include <gtest/gtest.h>

namespace dovetail::console {
namespace {

using Kind = Route::Kind;

Route route(std::string method, std::string path) {
  const Kind kind = method == "GET" ? Kind::reads : Kind::changes;
  return {std::move(method), std::move(path), Role::viewer, kind,
          [](const Request&, const Identity&) { return Reply{}; }};
}

RouteTable table() {
  return RouteTable({route("GET", "/api/v1/events"), route("GET", "/api/v1/events/{id}"),
                     route("POST", "/api/v1/events/{id}/reveal"), route("GET", "/")});
}

TEST(RouteTable, FindsTheRouteOfAPathAndWhatStandsForItsNames) {
  const RouteTable routes = table();
  EXPECT_EQ(routes.find("GET", "/").route->path, "/");
  EXPECT_EQ(routes.find("GET", "/api/v1/events").route->path, "/api/v1/events");
  const Found found = routes.find("GET", "/api/v1/events/a%2Fb%20c");
  ASSERT_NE(found.route, nullptr);
  EXPECT_EQ(found.places.find("id")->second, "a/b c");
  EXPECT_EQ(routes.find("HEAD", "/api/v1/events/1").route, found.route);
  EXPECT_EQ(routes.find("POST", "/api/v1/events/1/reveal").route->method, "POST");
}

TEST(RouteTable, LeavesOtherPathsAndMethodsAlone) {
  const RouteTable routes = table();
  for (const char* path : {"/api/v1/events/", "/api/v1", "/api/v1/events/1/2", "//api/v1/events",
                           "/api/v1/events/%zz", "/API/v1/events", ""})
    EXPECT_EQ(routes.find("GET", path).route, nullptr) << path;
  const Found found = routes.find("DELETE", "/api/v1/events/1");
  EXPECT_EQ(found.route, nullptr);
  EXPECT_EQ(found.allowed, "GET, HEAD");
  EXPECT_TRUE(found.places.empty());
  EXPECT_EQ(routes.find("HEAD", "/api/v1/events/1/reveal").allowed, "POST");
}

TEST(RouteTableDeathTest, RefusesRoutesThatCannotBeToldApartOrThatChangeByGet) {
  EXPECT_DEATH(RouteTable({route("GET", "/a/{b}"), route("GET", "/a/c")}), "");
  Route changes = route("GET", "/a");
  changes.kind = Kind::changes;
  EXPECT_DEATH(RouteTable({changes}), "");
  Route reads = route("POST", "/a");
  reads.kind = Kind::reads;
  EXPECT_DEATH(RouteTable({reads}), "");
}

TEST(Query, IsDecodedAndANameIsThereOnce) {
  const auto query = parse_query("a=1%202+3&b=&c");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->find("a")->second, "1 2 3");
  EXPECT_EQ(query->find("b")->second, "");
  EXPECT_EQ(query->find("c")->second, "");
  EXPECT_TRUE(parse_query("")->empty());
  EXPECT_FALSE(parse_query("a=1&a=2"));
  EXPECT_FALSE(parse_query("a=%zz"));
}

TEST(ErrorReply, QuotesWhatAClientSent) {
  const Reply reply = error_reply(400, "x", "say \"no\"\xff</script>");
  EXPECT_EQ(reply.status, 400U);
  EXPECT_EQ(reply.body,
            "{\"error\":{\"code\":\"x\",\"text\":\"say \\\"no\\\"\xEF\xBF\xBD</script>\"}}\n");
}

}  // namespace
}  // namespace dovetail::console
