#include "config/config.h"

#include <gtest/gtest.h>

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kGood = R"(
[store.orders]
url = "sqlite:orders.db"
payload_max = "2MiB"

[store.inventory]
url = "sqlite:/data/inventory.db"
topics = ["orders.events"]

[[relay]]
name = "orders-to-inventory"
from = "orders"
to = "inventory"
topic = "{aggregate_type}.events"
attempts_max = 7
lease = "1s"
retry_base = "20ms"
window_events = 2000

[retention]
delivered = "7d"
inbox = "30d"

[log]
format = "json"
)";

std::string error_of(std::string_view text) {
  const auto config = parse_config(text, "conf/dovetail.toml");
  if (config) return "accepted";
  EXPECT_EQ(config.error().code, Errc::rejected);
  return config.error().text;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The error of a broken file. Line numbers count from the first line of the text.
void expect_error(std::string_view text, std::string_view place,
                  std::initializer_list<std::string_view> parts) {
  const std::string error = error_of(text);
  EXPECT_TRUE(contains(error, place)) << "expected " << place << " in: " << error;
  for (const std::string_view part : parts) {
    EXPECT_TRUE(contains(error, part)) << "expected " << part << " in: " << error;
  }
}

TEST(Config, AGoodFileIsReadWhole) {
  const auto config = parse_config(kGood, "conf/dovetail.toml");
  ASSERT_TRUE(config) << config.error().text;
  ASSERT_EQ(config->stores.size(), 2u);
  const StoreConfig* orders = config->find_store("orders");
  ASSERT_NE(orders, nullptr);
  EXPECT_EQ(orders->path, "conf/orders.db");
  EXPECT_EQ(orders->payload_bytes_max, std::size_t{2} << 20);
  const StoreConfig* inventory = config->find_store("inventory");
  ASSERT_NE(inventory, nullptr);
  EXPECT_EQ(inventory->path, "/data/inventory.db");
  EXPECT_EQ(inventory->topics, std::vector<std::string>{"orders.events"});
  ASSERT_EQ(config->relays.size(), 1u);
  const RelayConfig& relay = config->relays.front();
  EXPECT_EQ(relay.options.attempts_max, 7u);
  EXPECT_EQ(relay.lease, Duration(1s));
  EXPECT_EQ(relay.options.key_retry.base, Duration(20ms));
  EXPECT_EQ(relay.options.window_events_max, 2000u);
  EXPECT_EQ(config->retention.delivered, Duration(7 * 24h));
  EXPECT_EQ(config->retention.inbox, Duration(30 * 24h));
  EXPECT_EQ(config->log.format, LogFormat::json);
}

TEST(Config, AStoreAloneIsEnoughAndTheRestHasDefaults) {
  const auto config = parse_config("[store.a]\nurl = \"sqlite:a.db\"\n", "dovetail.toml");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->stores.front().path, "a.db");
  EXPECT_EQ(config->stores.front().payload_bytes_max, std::size_t{1000} << 10);
  EXPECT_FALSE(config->retention.wanted());
  EXPECT_EQ(config->log.format, LogFormat::text);
}

TEST(Config, BrokenSyntaxNamesFileLineAndColumn) {
  expect_error("[store.a]\nurl = = 3\n", "conf/dovetail.toml:2:", {});
}

TEST(Config, AnUnknownKeyIsRefusedWithTheNearestName) {
  expect_error("[store.a]\nurl = \"sqlite:a.db\"\npayload_maximum = 3\n", "conf/dovetail.toml:3:1",
               {"store.a.payload_maximum", "unknown key", "url, payload_max, topics"});
  expect_error(std::string(kGood) + "colour = 1\n", "log.colour", {"Allowed here: format, level"});
  expect_error("[stores.a]\nurl = \"sqlite:a.db\"\n", "needs at least one [store.NAME]", {});
  expect_error("[store.a]\nurll = \"sqlite:a.db\"\nurl = \"sqlite:a.db\"\n",
               "conf/dovetail.toml:2:1", {"did you mean \"url\"?"});
}

TEST(Config, AnUnknownTableIsRefused) {
  expect_error("[store.a]\nurl = \"sqlite:a.db\"\n[retentoin]\nsent = \"1d\"\n",
               "retentoin: unknown key", {"did you mean \"retention\"?", ":3:"});
}

TEST(Config, AnUnknownStoreOfARelayIsRefusedWithTheKnownOnes) {
  expect_error(
      "[store.orders]\nurl = \"sqlite:a.db\"\n[[relay]]\nname = \"r\"\nfrom = \"order\"\n"
      "to = \"orders\"\n",
      "conf/dovetail.toml:5:8", {"relay.from", "\"order\"", "did you mean \"orders\"?"});
}

TEST(Config, AMissingKeyIsNamed) {
  expect_error("[store.a]\npayload_max = \"1MiB\"\n", "store.a: needs \"url\"", {":1:1"});
  expect_error("[store.a]\nurl = \"sqlite:a.db\"\n[[relay]]\nname = \"r\"\nfrom = \"a\"\n",
               "relay: needs \"to\"", {});
}

TEST(Config, AValueThatDoesNotFitNamesWhatIsAllowed) {
  const std::string store = "[store.a]\nurl = \"sqlite:a.db\"\n";
  expect_error("[store.a]\nurl = \"kafka:x\"\n", ":2:7", {"store.a.url", "sqlite:PATH"});
  expect_error("[store.a]\nread = [\"x\"]\nurl = \"rediz://localhost:1/0\"\n", ":3:7",
               {"store.a.url", "redis://"});
  expect_error(store + "payload_max = 100\n", ":3:15", {"store.a.payload_max", "KiB"});
  expect_error(store + "topics = \"x\"\n", ":3:10", {"list of strings"});
  expect_error(store + "[log]\nformat = \"xml\"\n", ":4:10", {"log.format", "\"text\", \"json\""});
  expect_error(store + "[retention]\ndelivered = \"7 days\"\n", ":4:13",
               {"retention.delivered", "\"7d\""});
  expect_error(store + "[retention]\nsent = \"7d\"\n", ":4:8", {"retention.sent", "\"delivered\""});
  const std::string relay = store + "[[relay]]\nname = \"r\"\nfrom = \"a\"\nto = \"a\"\n";
  expect_error(relay + "attempts_max = 0\n", ":7:16", {"relay.attempts_max", "from 1 to"});
  expect_error(relay + "topic = \"{colour}\"\n", ":7:9", {"relay.topic"});
  expect_error(relay + "lease = \"1ms\"\n", ":7:9", {"relay.lease", "at least 100 ms"});
  expect_error(relay + "window_events = 10\n", ":7:17", {"relay.window_events", "batch_events"});
  expect_error(relay + "[[relay]]\nname = \"r\"\nfrom = \"a\"\nto = \"a\"\n", ":8:8",
               {"two relays or consumers have the name \"r\""});
}

TEST(Config, APostgresUrlIsWhatLibpqTakes) {
  const auto conninfo = [](const std::string& url) {
    const auto config = parse_config("[store.a]\nurl = \"" + url + "\"\n", "conf/dovetail.toml");
    if (!config) return config.error().text;
    EXPECT_EQ(config->stores.front().scheme, StoreScheme::postgres);
    EXPECT_EQ(config->stores.front().where, "conf/dovetail.toml:2:7: store.a.url");
    return config->stores.front().conninfo;
  };
  EXPECT_EQ(conninfo("postgres:host=db user=relay"), "host=db user=relay");
  EXPECT_EQ(conninfo("postgresql:host=db"), "host=db");
  EXPECT_EQ(conninfo("postgres:"), "") << "everything comes from the environment";
  EXPECT_EQ(conninfo("postgres://relay@db/shop"), "postgres://relay@db/shop");
  EXPECT_EQ(conninfo("postgresql://relay@db/shop"), "postgresql://relay@db/shop");
}

TEST(Config, APasswordComesFromTheEnvironmentOrFromAFile) {
  const std::string store = "[store.a]\nurl = \"postgres:host=db\"\n";
  const auto config = parse_config(store + "password_file = \"secret\"\n", "conf/dovetail.toml");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->stores.front().password_file, "conf/secret");
  expect_error(store + "password_env = \"A\"\npassword_file = \"b\"\n", ":4:17", {"keep one"});
  expect_error("[store.a]\nurl = \"sqlite:a.db\"\npassword_env = \"A\"\n", ":3:16",
               {"store.a.password_env", "no password"});
}

TEST(Config, APostgresStoreIsReadInLanesAndHasNoMailbox) {
  const std::string stores =
      "[store.a]\nurl = \"postgres:host=db\"\n[store.b]\nurl = \"sqlite:b.db\"\n[[relay]]\n";
  const auto config =
      parse_config(stores + "name = \"r\"\nfrom = \"a\"\nto = \"b\"\nlanes = 8\n", "dovetail.toml");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->relays.front().lanes, 8u);
  expect_error(stores + "name = \"r\"\nfrom = \"b\"\nto = \"a\"\n", ":8:6", {"relay.to", "SQLite"});
  expect_error(stores + "name = \"r\"\nfrom = \"b\"\nto = \"b\"\nlanes = 8\n", ":9:9",
               {"relay.lanes"});
  expect_error("[store.a]\nurl = \"postgres:host=db\"\ntopics = [\"t\"]\n", ":3:10",
               {"no mailbox"});
}

TEST(Config, ATableThatExistsIsMappedBelowItsRelay) {
  const std::string stores =
      "[store.a]\nurl = \"postgres:host=db\"\n[store.b]\nurl = \"sqlite:b.db\"\n[[relay]]\n"
      "name = \"r\"\nto = \"b\"\nfrom = ";
  const std::string relay = stores + "\"a\"\n[relay.table]\n";
  const auto config =
      parse_config(relay +
                       "name = \"t\"\nid = \"n\"\ntype = \"\"\npending = \"s = new\"\n"
                       "when_delivered = [\"s = done\", \"at = now()\"]\nwhen_parked = []\n"
                       "delete_when_done = false\nheader_columns = { trace-id = \"t\" }\n",
                   "conf/dovetail.toml");
  ASSERT_TRUE(config) << config.error().text;
  const TableConfig& table = config->find_store("a")->tables.at("r");
  EXPECT_EQ(table.where, "conf/dovetail.toml:9:1: relay.table");
  EXPECT_EQ(table.name, "t");
  EXPECT_EQ(table.texts.at("id"), "n");
  EXPECT_EQ(table.texts.at("type"), "") << "it has none";
  EXPECT_EQ(table.lists.at("pending"), std::vector<std::string>{"s = new"});
  EXPECT_EQ(table.lists.at("when_delivered").size(), 2u);
  EXPECT_TRUE(table.lists.at("when_parked").empty());
  EXPECT_FALSE(table.lists.contains("when_discarded"));
  EXPECT_EQ(table.delete_when_done, false);
  EXPECT_EQ(table.header_columns.at("trace-id"), "t");

  expect_error(relay, "relay.table: needs \"preset\"", {":9:1", "\"name\""});
  expect_error(relay + "preset = \"status\"\nordr_by = \"n\"\n", ":11:1", {"\"order_by\"?"});
  expect_error(relay + "preset = \"status\"\nid = 7\n", ":11:6", {"relay.table.id", "a string"});
  expect_error(relay + "preset = \"status\"\npending = [7]\n", ":11:11", {"list of strings"});
  expect_error(relay + "name = \"t\"\ndelete_when_done = 1\n", ":11:20", {"true or false"});
  expect_error(relay + "preset = \"status\"\nwhen_sent = []\n", ":11:1", {"\"when_delivered\""});
  expect_error(relay + "name = \"t\"\nheader_columns = { a = 1 }\n", "relay.table.header_columns.a",
               {"a string"});
  expect_error(stores + "\"a\"\ntable = \"t\"\n", ":9:9", {"[relay.table]"});
  expect_error(stores + "\"b\"\n[relay.table]\nname = \"t\"\n", "relay.table", {"SQLite"});
}

TEST(Config, AFileThatCannotBeReadSaysSo) {
  const auto config = load_config("/no/such/dovetail.toml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, Errc::unavailable);
  EXPECT_TRUE(contains(config.error().text, "dovetail init")) << config.error().text;
  EXPECT_FALSE(load_config("/tmp"));
}

TEST(Config, WhatIsNestedTooDeepIsAnError) {
  for (const std::string open : {"[", "{a="}) {
    std::string text = "x = ";
    for (int i = 0; i < 50'000; ++i) text += open;
    const auto config = parse_config(text, "deep.toml");
    ASSERT_FALSE(config);
    EXPECT_NE(config.error().text.find("deep.toml"), std::string::npos) << config.error().text;
  }
}

std::string relay_with(std::string_view keys) {
  return "[store.a]\nurl = \"sqlite:a.db\"\n[[relay]]\nname = \"r\"\nfrom = \"a\"\nto = \"a\"\n" +
         std::string(keys);
}

TEST(Config, AFilterHasPatternsAndHeadersWithNames) {
  const auto config = parse_config(
      relay_with(
          "types = \"order.*\"\ntopics = [\"a\", \"b*\"]\nheaders = [\"region=eu*\", \"x=a=b\"]"),
      "dovetail.toml");
  ASSERT_TRUE(config) << config.error().text;
  const RelayFilter& filter = config->relays.at(0).options.filter;
  EXPECT_EQ(filter.types, std::vector<std::string>{"order.*"});
  EXPECT_EQ(filter.topics.size(), 2U);
  EXPECT_EQ(filter.headers.at(0), (std::pair<std::string, std::string>("region", "eu*")));
  EXPECT_EQ(filter.headers.at(1), (std::pair<std::string, std::string>("x", "a=b")));
  EXPECT_FALSE(config->relays.at(0).starts_now);
  expect_error(relay_with("types = \"*.placed\""), "7:9: relay.types", {"*.placed"});
  expect_error(relay_with("headers = \"region\""), "7:11: relay.headers", {"region=eu"});
  expect_error(relay_with("headers = \"=eu\""), "7:11: relay.headers", {"region=eu"});
  expect_error(relay_with("headers = \"region=*u\""), "7:11: relay.headers", {"*u"});
  expect_error(relay_with("start = \"then\""), "7:9: relay.start", {"beginning"});
}

}  // namespace
}  // namespace dovetail::config
