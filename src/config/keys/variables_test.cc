// Variables of the environment in a configuration file.
#include "config/keys/variables.h"

#include <cstdlib>

#include "config/test_config.h"

namespace dovetail::config {
namespace {

std::string store(const std::string& url) { return "[store.a]\nurl = \"" + url + "\"\n"; }

TEST(ConfigVariables, AreReplacedInTextsAndLists) {
  ::setenv("DOVETAIL_TEST_FOLDER", "/data", 1);
  ::setenv("DOVETAIL_TEST_TOPIC", "orders", 1);
  const Config config = parse(store("sqlite:${DOVETAIL_TEST_FOLDER}/a.db") +
                              "topics = [\"${DOVETAIL_TEST_TOPIC}.${DOVETAIL_TEST_TOPIC}\"]\n");
  EXPECT_EQ(config.stores.at(0).path, "/data/a.db");
  EXPECT_EQ(config.stores.at(0).topics.at(0), "orders.orders");
}

TEST(ConfigVariables, AnEscapedOneIsText) {
  const Config config = parse(store("sqlite:/a$${HOME}$x.db"));
  EXPECT_EQ(config.stores.at(0).path, "/a${HOME}$x.db");
}

TEST(ConfigVariables, OneThatIsNotSetIsNamedWithItsPlace) {
  ::unsetenv("DOVETAIL_TEST_MISSING");
  expect_error(store("sqlite:${DOVETAIL_TEST_MISSING}"),
               {"conf/dovetail.toml:2:7: store.a.url: ", "DOVETAIL_TEST_MISSING is not set"});
  expect_error(store("sqlite:${DOVETAIL_TEST_MISSING"), {"conf/dovetail.toml:2:7", "${NAME}"});
  expect_error(store("sqlite:${}"), {"${NAME}"});
}

TEST(ConfigVariables, AValueIsNeverShown) {
  ::setenv("DOVETAIL_TEST_SECRET", "s3cret", 1);
  const auto config = parse_config(store("sqlite:a.db") +
                                       "[[relay]]\nname = \"r\"\nfrom = \"a\"\nto = \"a\"\n"
                                       "types = [\"*-${DOVETAIL_TEST_SECRET}\"]\n",
                                   "dovetail.toml");
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().text.find("*-${DOVETAIL_TEST_SECRET}"), std::string::npos)
      << config.error().text;
}

}  // namespace
}  // namespace dovetail::config
