#include "postgres/inbox/function_check.h"

#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

class FunctionCheck : public ::testing::Test {
 protected:
  FunctionCheck() {
    const Status made = create_schema(connection);
    EXPECT_TRUE(made) << text_of(made);
    must(connection, "CREATE SCHEMA shop");
  }
  void create(const std::string& signature) {
    must(connection, "CREATE FUNCTION " + signature + " RETURNS void LANGUAGE sql AS ''");
  }
  std::string check(const std::string& function, bool batch = false) {
    return text_of(check_function(connection, function, batch));
  }

  TestDatabase database;
  Connection connection = database.connect();
};

TEST_F(FunctionCheck, AFunctionThatTakesAnEventFits) {
  create("shop.book(event dovetail.event)");
  create("shop.\"Book\"(event dovetail.event)");
  create("book(event dovetail.event, note text DEFAULT '')");
  create("shop.many(events dovetail.event[])");
  EXPECT_EQ(check("shop.book"), "ok");
  EXPECT_EQ(check("shop.Book"), "ok");
  EXPECT_EQ(check("book"), "ok");
  EXPECT_EQ(check("shop.many", true), "ok");
}

TEST_F(FunctionCheck, AmongSeveralOfItsNameTheOneThatFitsIsFound) {
  create("shop.book(n int)");
  create("shop.book(event dovetail.event)");
  create("shop.book(a text, b text)");
  EXPECT_EQ(check("shop.book"), "ok");
}

TEST_F(FunctionCheck, WhatIsMissingIsSaidWithWhatToDo) {
  create("shop.number(n int)");
  create("shop.two(event dovetail.event, n int)");
  create("shop.many(events dovetail.event[])");
  must(connection, "CREATE PROCEDURE shop.ends(event dovetail.event) LANGUAGE sql AS ''");
  EXPECT_TRUE(contains(check("shop.book"), "CREATE FUNCTION shop.book(event dovetail.event)"));
  EXPECT_TRUE(contains(check("number"), "search_path")) << check("number");
  EXPECT_TRUE(contains(check("shop.number"), "shop.number(n integer) does not fit"));
  EXPECT_TRUE(contains(check("shop.two"), "does not fit"));
  EXPECT_TRUE(contains(check("shop.many"), "\"batch\"")) << check("shop.many");
  EXPECT_TRUE(contains(check("shop.ends"), "must be a function")) << check("shop.ends");
  EXPECT_TRUE(failed_with(check_function(connection, "shop.book", false), Errc::rejected));
}

TEST_F(FunctionCheck, ARoleThatMayNotCallItIsNamed) {
  const std::string user = database.name + "_consumer";
  create("shop.book(event dovetail.event)");
  must(connection, "REVOKE ALL ON FUNCTION shop.book FROM PUBLIC");
  must(connection, "CREATE ROLE " + user + " LOGIN");
  must(connection, "GRANT USAGE ON SCHEMA dovetail TO " + user);
  Connection as_user = database.connect(user);
  const auto check_as_user = [&] { return text_of(check_function(as_user, "shop.book", false)); };
  EXPECT_TRUE(contains(check_as_user(), "GRANT USAGE")) << check_as_user();
  must(connection, "GRANT USAGE ON SCHEMA shop TO " + user);
  EXPECT_TRUE(contains(check_as_user(), "GRANT EXECUTE")) << check_as_user();
  EXPECT_TRUE(contains(check_as_user(), user));
  must(connection, "GRANT EXECUTE ON FUNCTION shop.book TO " + user);
  EXPECT_EQ(check_as_user(), "ok");
  as_user.close();
  must(connection, "DROP OWNED BY " + user);
  must(connection, "DROP ROLE " + user);
}

}  // namespace
}  // namespace dovetail::postgres
