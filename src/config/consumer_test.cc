#include "config/consumer.h"

#include "config/test_config.h"

namespace dovetail::config {
namespace {

// Lines 1 to 8.
constexpr const char* kStores =
    "[store.shop]\nurl = \"postgres:dbname=shop\"\n"
    "[store.file]\nurl = \"sqlite:file.db\"\n"
    "[store.bus]\nurl = \"kafka://h:9092\"\nread = [\"orders\"]\n"
    "[store.hook]\nurl = \"https://h/hook\"\n";

std::string consumer(const std::string& lines) {
  return std::string(kStores) + "[[consumer]]\nname = \"stock\"\n" + lines;
}

const std::string kFromShop = "from = \"shop\"\nto = \"shop\"\n";
const std::string kQueue = "[[consumer.handler]]\nkind = \"queue\"\n";

TEST(ConsumerConfig, SaysWhereFromWhereToAndWhichHandlers) {
  using namespace std::chrono_literals;
  const Config config = parse(
      consumer(kFromShop +
               "topics = [\"orders.events\"]\nparallel = 4\nclaim = \"2m\"\nattempts_max = 3\n"
               "[[consumer.handler]]\nname = \"ledger\"\nkind = \"sql\"\nfunction = \"shop.book\"\n"
               "batch = true\ntypes = [\"order.placed\", \"refund.*\"]\n"
               "[[consumer.handler]]\nname = \"pull\"\nkind = \"queue\"\ntypes = \"order.*\"\n"
               "[[consumer.handler]]\nname = \"mail\"\nkind = \"http\"\nstore = \"hook\"\n"
               "[[consumer.handler]]\nname = \"print\"\nkind = \"command\"\n"
               "command = [\"bin/print\", \"-v\"]\ntimeout = \"5s\"\n"
               "environment = [\"TMPDIR\", \"MAIL_TOKEN\"]\n"));
  ASSERT_EQ(config.consumers.size(), 1U);
  const ConsumerConfig& stock = config.consumers[0];
  EXPECT_EQ(stock.relay.name, "stock");
  EXPECT_EQ(stock.relay.from, "shop");
  EXPECT_EQ(stock.relay.to, "shop");
  EXPECT_EQ(stock.relay.lanes, 4U);
  EXPECT_EQ(stock.relay.options.attempts_max, 3U);
  EXPECT_EQ(stock.relay.options.batch_events_max, 64U) << "one of its handlers is outside";
  EXPECT_EQ(stock.topics, std::vector<std::string>{"orders.events"});
  EXPECT_EQ(stock.claim, 2min);
  EXPECT_EQ(stock.source, SourceKind::outbox);
  ASSERT_EQ(stock.handlers.size(), 4U);
  EXPECT_EQ(stock.handlers[0].function, "shop.book");
  EXPECT_TRUE(stock.handlers[0].batch);
  EXPECT_EQ(stock.handlers[0].types, (std::vector<std::string>{"order.placed", "refund.*"}));
  EXPECT_EQ(stock.handlers[1].kind, HandlerConfig::Kind::queue);
  EXPECT_EQ(stock.handlers[1].types, std::vector<std::string>{"order.*"});
  EXPECT_EQ(stock.handlers[2].store, "hook");
  EXPECT_TRUE(stock.handlers[2].is_external());
  EXPECT_EQ(stock.handlers[3].timeout, 5s);
  EXPECT_EQ(stock.handlers[3].command[1], "-v");
  EXPECT_EQ(stock.handlers[3].environment, (std::vector<std::string>{"TMPDIR", "MAIL_TOKEN"}));
  ASSERT_EQ(config.readers().size(), 1U);
  EXPECT_EQ(config.readers()[0]->name, "stock");
}

TEST(ConsumerConfig, ABatchIsATransactionWhereAllHandlersAreInsideOfIt) {
  EXPECT_EQ(parse(consumer(kFromShop + kQueue)).consumers[0].relay.options.batch_events_max, 500U);
  const Config written =
      parse(consumer(kFromShop + "batch_events = 7\nconfirm_timeout = \"3s\"\n" +
                     "[[consumer.handler]]\nkind = \"http\"\nstore = \"hook\"\n"));
  EXPECT_EQ(written.consumers[0].relay.options.batch_events_max, 7U);
  EXPECT_EQ(written.consumers[0].relay.options.confirm_timeout, std::chrono::seconds(3));
}

TEST(ConsumerConfig, AProgramWithASlashIsRelativeToTheFileAndAnotherIsLookedFor) {
  const auto program = [](const std::string& name) {
    return parse(consumer(kFromShop + "[[consumer.handler]]\nkind = \"command\"\ncommand = [\"" +
                          name + "\"]\n"))
        .consumers[0]
        .handlers[0]
        .command[0];
  };
  EXPECT_EQ(program("print"), "print");
  EXPECT_EQ(program("/usr/bin/print"), "/usr/bin/print");
  EXPECT_TRUE(program("bin/print").ends_with("/conf/bin/print"));
  EXPECT_TRUE(program("bin/print").starts_with("/"));
}

TEST(ConsumerConfig, TheOwnFileIsReadFromItsMailboxAndAnotherFromItsOutbox) {
  const std::string handler = "[[consumer.handler]]\nkind = \"http\"\nstore = \"hook\"\n";
  const auto source = [&](const std::string& lines) {
    return parse(consumer(lines + handler)).consumers[0].source;
  };
  EXPECT_EQ(source("from = \"file\"\nto = \"file\"\n"), SourceKind::mailbox);
  EXPECT_EQ(source("from = \"file\"\nto = \"file\"\nbox = \"outbox\"\n"), SourceKind::outbox);
  EXPECT_EQ(source("from = \"file\"\nto = \"shop\"\n"), SourceKind::outbox);
  EXPECT_EQ(source("from = \"file\"\nto = \"shop\"\nbox = \"mailbox\"\n"), SourceKind::mailbox);
  EXPECT_EQ(source("from = \"bus\"\nto = \"shop\"\n"), SourceKind::broker);
}

TEST(ConsumerConfig, ABrokerKeepsTopicsAndHasTheConsumersNameAsItsGroup) {
  const Config config = parse(consumer("from = \"bus\"\nto = \"shop\"\n" + kQueue));
  EXPECT_EQ(config.consumers[0].relay.topic, "");
  EXPECT_EQ(config.find_store("bus")->broker.group, "stock");
}

TEST(ConsumerConfig, ATableThatExistsAlreadyIsRead) {
  const Config config =
      parse(consumer(kFromShop + "[consumer.table]\npreset = \"status\"\n" + kQueue));
  EXPECT_EQ(config.find_store("shop")->tables.at("stock").preset, "status");
}

TEST(ConsumerConfig, WhatDoesNotFitIsRefusedWithItsPlaceAndWhatIsAllowed) {
  const std::string sql = "[[consumer.handler]]\nkind = \"sql\"\n";
  struct Case {
    std::string lines;
    std::vector<std::string_view> says;
  };
  const Case cases[] = {
      {kFromShop, {"conf/dovetail.toml:10:1: consumer", "[[consumer.handler]]"}},
      {"from = \"shop\"\n" + kQueue, {"consumer: needs \"to\""}},
      {"from = \"shopp\"\nto = \"shop\"\n" + kQueue,
       {":12:8: consumer.from", "did you mean \"shop\"?"}},
      {"from = \"shop\"\nto = \"bus\"\n" + kQueue,
       {":13:6: consumer.to", "is a broker", "[[relay]]"}},
      {kFromShop + "lanes = 2\n" + kQueue, {":14:1: consumer.lanes", "unknown key", "parallel"}},
      {kFromShop + "box = \"mailbox\"\n" + kQueue, {":14:7: consumer.box", "PostgreSQL"}},
      {"from = \"bus\"\nto = \"shop\"\nbox = \"outbox\"\n" + kQueue, {"consumer.box", "is Kafka"}},
      {"from = \"file\"\nto = \"shop\"\n[consumer.table]\npreset = \"status\"\n" + kQueue,
       {"consumer.table", "SQLite"}},
      {kFromShop + "[[consumer.handler]]\n", {":14:1: consumer.handler", "needs \"kind\""}},
      {kFromShop + "[[consumer.handler]]\nkind = \"lua\"\n",
       {":15:8: consumer.handler.kind", "\"sql\", \"queue\", \"http\", \"command\""}},
      {kFromShop + sql, {":14:1: consumer.handler", "\"sql\"", "needs \"function\""}},
      {kFromShop + kQueue + "function = \"f\"\n", {":16:12: consumer.handler.function", "\"sql\""}},
      {kFromShop + sql + "function = \"f\"\ntypes = [\"*.placed\"]\n",
       {":17:9: consumer.handler.types", "\"*.placed\"", "\"order.*\""}},
      {kFromShop + kQueue + kQueue, {":16:1: consumer.handler", "\"name\""}},
      {kFromShop + kQueue + "name = \"a\"\n" + kQueue + "name = \"a\"\n",
       {":17:1: consumer.handler", "two handlers have the name \"a\""}},
      {kFromShop + kQueue + kQueue + "name = \"a\"\n",
       {":16:1: consumer.handler", "the previous handler"}},
      {kFromShop + kQueue + "name = \"a.b\"\n", {"consumer.handler.name", "letters, digits"}},
      {kFromShop + "[[consumer.handler]]\nkind = \"http\"\nstore = \"bus\"\n",
       {":16:9: consumer.handler.store", "Kafka", "http or https url"}},
      {kFromShop + "[[consumer.handler]]\nkind = \"http\"\nstore = \"hook\"\ntimeout = \"1s\"\n",
       {"consumer.handler.timeout", "request_timeout"}},
      {kFromShop + "[[consumer.handler]]\nkind = \"command\"\ncommand = [\"x\"]\n" +
           "environment = [\"TOKEN=x\"]\n",
       {"consumer.handler.environment", "names of variables"}},
      {kFromShop + kQueue + "environment = [\"TOKEN\"]\n",
       {"consumer.handler.environment", "\"command\""}},
      {kFromShop + "[[consumer.handler]]\nkind = \"command\"\ncommand = []\n",
       {"consumer.handler.command", "program"}},
      {kFromShop +
           "[[consumer.handler]]\nkind = \"command\"\ncommand = [\"x\"]\ntimeout = \"2m\"\n",
       {"consumer.handler.timeout", "less than the claim"}},
      {kFromShop + "version_guard = true\n[[consumer.handler]]\nkind = \"command\"\ncommand = "
                   "[\"x\"]\n",
       {":14:17: consumer.version_guard", "inside the transaction"}},
      {"from = \"file\"\nto = \"file\"\n" + kQueue,
       {":15:8: consumer.handler.kind", "SQLite", "\"http\" or \"command\""}},
      {kFromShop + kQueue + "[[consumer]]\nname = \"stock\"\n" + kFromShop + kQueue,
       {":17:8: consumer.name", "have the name \"stock\""}},
      {"from = \"bus\"\nto = \"shop\"\n" + kQueue +
           "[[consumer]]\nname = \"b\"\nfrom = \"bus\"\nto = "
           "\"shop\"\n" +
           kQueue,
       {":18:8: consumer.from", "\"stock\"", "reads the store \"bus\", too"}},
      {kFromShop + kQueue + "[[relay]]\nname = \"stock\"\nfrom = \"shop\"\nto = \"file\"\n",
       {"consumer.name", "have the name \"stock\""}}};
  for (const Case& one : cases) {
    const auto config = parse_config(consumer(one.lines), "conf/dovetail.toml");
    ASSERT_FALSE(config) << one.lines;
    for (const std::string_view part : one.says) {
      EXPECT_NE(config.error().text.find(part), std::string::npos)
          << "expected " << part << " in: " << config.error().text << "\nof\n"
          << one.lines;
    }
  }
  expect_error(std::string(kStores) + "[[consumer]]\nname = \"a.b\"\n" + kFromShop + kQueue,
               {":11:8: consumer.name", "letters, digits"});
}

}  // namespace
}  // namespace dovetail::config
