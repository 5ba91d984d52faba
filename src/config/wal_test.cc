// How the outbox of a PostgreSQL store is read: through the WAL, or as a table.
#include "config/test_config.h"

namespace dovetail::config {
namespace {

// Lines 1 to 7; the test's own text begins in line 12.
constexpr const char* kStores =
    "[store.shop]\nurl = \"postgres:dbname=shop\"\n"
    "[store.file]\nurl = \"sqlite:file.db\"\n"
    "[store.bus]\nurl = \"kafka://h:9092\"\nread = [\"orders\"]\n";

std::string relay(const std::string& from, const std::string& to, const std::string& lines) {
  return std::string(kStores) + "[[relay]]\nname = \"r\"\nfrom = \"" + from + "\"\nto = \"" + to +
         "\"\n" + lines;
}

std::string consumer(const std::string& from, const std::string& lines) {
  return std::string(kStores) + "[[consumer]]\nname = \"c\"\nfrom = \"" + from +
         "\"\nto = \"shop\"\n" + lines + "[[consumer.handler]]\nkind = \"queue\"\n";
}

TEST(ConfigOfTheWal, ARelayReadsTheLogByItselfUnlessItIsToldOtherwise) {
  const Config config = parse(relay("shop", "bus", ""));
  ASSERT_EQ(config.relays.size(), 1U);
  EXPECT_EQ(config.relays[0].reading.mode, ReadMode::automatic);
  EXPECT_EQ(config.relays[0].reading.retained_wal_max, std::int64_t{1} << 30);
  EXPECT_EQ(config.relays[0].slot, "");
}

TEST(ConfigOfTheWal, ARelayAndAConsumerSayHowTheyReadIt) {
  const Config relays =
      parse(relay("shop", "bus", "mode = \"wal\"\nretained_wal_max = \"64MiB\"\n"));
  ASSERT_EQ(relays.relays.size(), 1U);
  EXPECT_EQ(relays.relays[0].reading.mode, ReadMode::wal);
  EXPECT_EQ(relays.relays[0].reading.retained_wal_max, std::int64_t{64} << 20);

  const Config consumers = parse(consumer("shop", "mode = \"poll\"\nparallel = 4\n"));
  ASSERT_EQ(consumers.consumers.size(), 1U);
  EXPECT_EQ(consumers.consumers[0].relay.reading.mode, ReadMode::poll);
}

TEST(ConfigOfTheWal, AnUnknownModeIsRefusedWithThoseThatThereAre) {
  expect_error(relay("shop", "bus", "mode = \"log\"\n"),
               {"conf/dovetail.toml:12:", "mode", "auto", "wal", "poll"});
}

TEST(ConfigOfTheWal, WhatHasNoLogIsToldSo) {
  expect_error(relay("file", "bus", "mode = \"wal\"\n"),
               {"conf/dovetail.toml:12:", "\"file\" is SQLite", "remove it"});
  expect_error(relay("bus", "file", "retained_wal_max = \"1GiB\"\n"),
               {"conf/dovetail.toml:12:", "\"bus\" is Kafka", "remove it"});
  expect_error(consumer("bus", "mode = \"auto\"\n"), {"conf/dovetail.toml:12:", "is Kafka"});
}

TEST(ConfigOfTheWal, OneStreamIsNotSharedByLanes) {
  expect_error(relay("shop", "bus", "mode = \"wal\"\nlanes = 4\n"),
               {"conf/dovetail.toml:13:", "lanes", "lanes = 1"});
  expect_error(consumer("shop", "mode = \"wal\"\nparallel = 2\n"),
               {"conf/dovetail.toml:13:", "parallel", "parallel = 1"});
  parse(relay("shop", "bus", "mode = \"auto\"\nlanes = 4\n"));
}

TEST(ConfigOfTheWal, ARelayThatStillCarriesEmittedEventsIsToldWhatToDo) {
  for (const char* lines : {"emitted = true\n", "emitted = false\n"})
    expect_error(relay("shop", "bus", lines),
                 {"conf/dovetail.toml:12:", "emitted", "was removed", "dovetail.publish()"});
  expect_error(consumer("file", "emitted = true\n"), {"conf/dovetail.toml:12:", "was removed"});
}

TEST(ConfigOfTheWal, PollingKeepsNoLogThatCouldBeLimited) {
  expect_error(relay("shop", "bus", "mode = \"poll\"\nretained_wal_max = \"1GiB\"\n"),
               {"conf/dovetail.toml:13:", "retained_wal_max", "remove it"});
  expect_error(relay("shop", "bus", "retained_wal_max = \"1KiB\"\n"),
               {"conf/dovetail.toml:12:", "retained_wal_max", "must be at least 1MiB"});
}

TEST(ConfigOfTheWal, ASlotIsTakenOverForATableOnly) {
  const std::string table = "[relay.table]\npreset = \"debezium\"\n";
  const Config config = parse(relay(
      "shop", "bus",
      "mode = \"wal\"\nslot = \"debezium_shop\"\npublication = \"dbz_publication\"\n" + table));
  ASSERT_EQ(config.relays.size(), 1U);
  EXPECT_EQ(config.relays[0].slot, "debezium_shop");
  const TableConfig& served = config.find_store("shop")->tables.at(config.relays[0].name);
  EXPECT_TRUE(served.from_wal);
  EXPECT_EQ(served.slot, "debezium_shop");
  EXPECT_EQ(served.publication, "dbz_publication");
  expect_error(relay("shop", "bus", "mode = \"wal\"\nslot = \"debezium\"\n"),
               {"conf/dovetail.toml:13:", "slot"});
  expect_error(relay("shop", "bus", "slot = \"debezium\"\n" + table),
               {"conf/dovetail.toml:12:", "slot", "mode = \"wal\""});
  const std::string taken =
      "mode = \"wal\"\nslot = \"debezium\"\npublication = \"dbz_publication\"\n" + table;
  const std::string again = "[[relay]]\nname = \"s\"\nfrom = \"shop\"\nto = \"bus\"\n" + taken;
  expect_error(relay("shop", "bus", taken + again), {"slot", "\"r\" already"});
  expect_error(relay("shop", "bus", "mode = \"wal\"\nslot = \"My-Slot\"\n" + table),
               {"conf/dovetail.toml:13:", "lower case letters"});
  expect_error(relay("shop", "bus", "mode = \"wal\"\nslot = \"debezium\"\n" + table),
               {"conf/dovetail.toml:13:", "slot", "\"publication\"", "dbz_publication"});
  expect_error(relay("shop", "bus", "publication = \"dbz_publication\"\n" + table),
               {"conf/dovetail.toml:12:", "publication", "mode = \"wal\""});
}

TEST(ConfigOfTheWal, ATableIsReadOutOfTheLogOnlyWhenThatIsAskedFor) {
  const std::string table = "[relay.table]\npreset = \"debezium\"\n";
  for (const std::string mode : {"auto", "poll"}) {
    const Config config = parse(relay("shop", "bus", "mode = \"" + mode + "\"\n" + table));
    EXPECT_FALSE(config.find_store("shop")->tables.at(config.relays[0].name).from_wal) << mode;
  }
}

TEST(ConfigOfTheWal, ReplicationMayGoPastAPooler) {
  const auto store = [](const std::string& line) {
    return "[store.shop]\nurl = \"postgres://shop@pooler:6432/shop\"\n" + line + "\n";
  };
  const Config config = parse(store("replication_url = \"postgres://shop@db:5432/shop\""));
  ASSERT_EQ(config.stores.size(), 1U);
  EXPECT_EQ(config.stores[0].replication_conninfo, "postgres://shop@db:5432/shop");
  EXPECT_NE(config.stores[0].replication_where.find("conf/dovetail.toml:3:"), std::string::npos);

  expect_error(store("replication_url = \"http://secret@db\""),
               {"conf/dovetail.toml:3:", "replication_url", "postgres://"});
  const auto refused = parse_config(store("replication_url = \"http://secret@db\""), "f");
  EXPECT_EQ(refused.error().text.find("secret"), std::string::npos) << refused.error().text;
  expect_error("[store.file]\nurl = \"sqlite:file.db\"\nreplication_url = \"postgres:\"\n",
               {"conf/dovetail.toml:3:", "SQLite", "remove it"});
}

}  // namespace
}  // namespace dovetail::config
