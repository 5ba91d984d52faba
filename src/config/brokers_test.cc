#include "config/test_config.h"

namespace dovetail::config {
namespace {

std::string store_of(const std::string& url, const std::string& more = "") {
  return "[store.bus]\nurl = \"" + url + "\"\n" + more;
}

// With a database beside it, and the given keys of a relay.
std::string relay_of(const std::string& bus, const std::string& relay) {
  return bus + "[store.db]\nurl = \"sqlite:db.db\"\n[[relay]]\nname = \"r\"\n" + relay;
}

StoreConfig parse_store(const std::string& text) {
  const Config config = parse(text);
  const StoreConfig* const store = config.find_store("bus");
  return store == nullptr ? StoreConfig{} : *store;
}

TEST(BrokerConfig, TheSchemeOfTheUrlSaysWhichBrokerAndWhetherWithTls) {
  struct Case {
    std::string url;
    StoreScheme scheme;
    bool tls;
    std::size_t hosts;
    std::string path;
  };
  const Case cases[] = {
      {"kafka://a:9092,b:9093", StoreScheme::kafka, false, 2, ""},
      {"kafka+tls://a:9092", StoreScheme::kafka, true, 1, ""},
      {"amqp://a:5672/shop", StoreScheme::rabbitmq, false, 1, "shop"},
      {"amqps://a/%2f", StoreScheme::rabbitmq, true, 1, "%2f"},
      {"nats://a:4222,b", StoreScheme::nats, false, 2, ""},
      {"nats+tls://a", StoreScheme::nats, true, 1, ""},
      {"redis://[::1]:6379/3", StoreScheme::redis, false, 1, "3"},
      {"rediss://a", StoreScheme::redis, true, 1, ""},
      {"http://a:8080/hooks/in", StoreScheme::http, false, 1, "hooks/in"},
      {"https://a/hooks?token=x@y", StoreScheme::http, true, 1, "hooks?token=x@y"}};
  for (const Case& one : cases) {
    const StoreConfig store = parse_store(store_of(one.url));
    EXPECT_TRUE(store.is_broker()) << one.url;
    EXPECT_EQ(store.scheme, one.scheme) << one.url;
    EXPECT_EQ(store.broker.tls, one.tls) << one.url;
    EXPECT_EQ(store.broker.hosts.size(), one.hosts) << one.url;
    EXPECT_EQ(store.broker.path, one.path) << one.url;
    EXPECT_EQ(store.broker.url, one.url);
  }
  const StoreConfig kafka = parse_store(store_of("kafka://a:9092,b"));
  EXPECT_EQ(kafka.broker.hosts[0].host, "a");
  EXPECT_EQ(kafka.broker.hosts[0].port, 9092);
  EXPECT_EQ(kafka.broker.hosts[1].port, 0);
  EXPECT_EQ(parse_store(store_of("redis://[::1]:6379")).broker.hosts[0].host, "::1");
}

TEST(BrokerConfig, AWrongUrlIsRefusedWithoutRepeatingIt) {
  for (const std::string url :
       {"kafka://", "kafka://a:9092,", "kafka://a:70000", "kafka://a:0", "kafka://a:b",
        "kafka://a b", "kafka://a/topic", "redis://a,b", "amqp://[::1", "nats://a?x=1"}) {
    expect_error(store_of(url), {"conf/dovetail.toml:2:7: store.bus.url", "must be", "HOST:PORT"});
  }
}

TEST(BrokerConfig, AUserOrPasswordInTheUrlIsRefusedAndNotShown) {
  for (const std::string url :
       {"amqp://shop:s3cret@a:5672/", "redis://:s3cret@a", "kafka://s3cret@a:1",
        "nats://a:s3cret/x@b", "https://u:s3cret@a/hook"}) {
    expect_error(store_of(url), {"store.bus.url", "\"password_env\""});
    const auto config = parse_config(store_of(url), "dovetail.toml");
    EXPECT_EQ(config.error().text.find("s3cret"), std::string::npos) << config.error().text;
  }
}

TEST(BrokerConfig, WhatPeopleSeeOfAnEndpointHasNoPathAndNoQuery) {
  for (const std::string place : {"/s3cret", "/s3cret?token=s3cret", "?token=s3cret"}) {
    EXPECT_EQ(parse_store(store_of("https://a:81" + place)).shown, "https://a:81/...");
  }
  EXPECT_EQ(parse_store(store_of("https://a/")).shown, "https://a/");
  EXPECT_EQ(parse_store(store_of("https://a")).shown, "https://a");
  EXPECT_EQ(parse_store(store_of("amqps://a/shop")).shown, "amqps://a/shop");
}

TEST(BrokerConfig, EveryKeyIsRead) {
  const StoreConfig store = parse_store(store_of("rediss://a:6379/1", R"(user = "shop"
password_file = "secret"
ca_file = "ca.pem"
cert_file = "/etc/client.pem"
key_file = "client.key"
format = "debezium"
source = "/shop"
key = "{aggregate_type}/{aggregate_id}"
partition = "{header.partition}"
payload_max = "2MiB"
id_header = "x-id"
type_header = "x-type"
aggregate_type_header = "x-kind"
aggregate_id_header = "x-key"
read = ["orders", "returns"]
group = "inventory"
[store.bus.headers]
tenant = "{header.tenant}"
[store.bus.settings]
window = 3
name = "n"
strict = true
)"));
  EXPECT_EQ(store.where, "conf/dovetail.toml:2:7: store.bus.url");
  EXPECT_EQ(store.payload_bytes_max, std::size_t{2} << 20);
  EXPECT_EQ(store.password_file, "conf/secret");
  const BrokerConfig& broker = store.broker;
  EXPECT_EQ(broker.user, "shop");
  EXPECT_EQ(broker.ca_file, "conf/ca.pem");
  EXPECT_EQ(broker.cert_file, "/etc/client.pem");
  EXPECT_EQ(broker.key_file, "conf/client.key");
  EXPECT_EQ(broker.message.format, MessageFormat::debezium);
  EXPECT_EQ(broker.message.source, "/shop");
  EXPECT_EQ(broker.message.key, "{aggregate_type}/{aggregate_id}");
  EXPECT_EQ(broker.message.partition, "{header.partition}");
  ASSERT_EQ(broker.message.headers.size(), 1u);
  EXPECT_EQ(broker.message.headers[0].first, "tenant");
  EXPECT_EQ(broker.message.headers[0].second, "{header.tenant}");
  EXPECT_EQ(broker.foreign.id, "x-id");
  EXPECT_EQ(broker.foreign.type, "x-type");
  EXPECT_EQ(broker.foreign.aggregate_type, "x-kind");
  EXPECT_EQ(broker.foreign.aggregate_id, "x-key");
  EXPECT_EQ(broker.read, (std::vector<std::string>{"orders", "returns"}));
  EXPECT_EQ(broker.group, "inventory");
  ASSERT_EQ(broker.settings.as<Value::Table>()->size(), 3u);
  ASSERT_NE(broker.settings.find("window"), nullptr);
  EXPECT_EQ(to_toml(broker.settings.find("window")->value), "3");
  EXPECT_EQ(broker.settings.find("window")->value.place.line, 22u);
  EXPECT_EQ(to_toml(broker.settings.find("strict")->value), "true");
  EXPECT_EQ(broker.file, "conf/dovetail.toml");
}

TEST(BrokerConfig, AValueThatDoesNotFitNamesItsPlaceAndWhatIsAllowed) {
  const std::string url = "redis://a";
  expect_error(store_of(url, "format = \"avro\"\n"),
               {":3:10", "store.bus.format", "\"cloudevents\", \"debezium\", \"raw\""});
  expect_error(store_of(url, "key = \"{colour}\"\n"), {":3:7", "store.bus.key", "colour"});
  expect_error(store_of(url, "partition = \"{\"\n"), {"store.bus.partition"});
  expect_error(store_of(url, "[store.bus.headers]\nx = \"{nothing}\"\n"),
               {":4:5", "store.bus.headers.x", "nothing"});
  expect_error(store_of(url, "read = \"orders\"\n"), {"store.bus.read", "list of strings"});
  expect_error(store_of(url, "topics = [\"x\"]\n"), {"store.bus.topics", "unknown key", "read"});
  expect_error(store_of(url, "password_env = \"A\"\npassword_file = \"b\"\n"), {":4:", "keep one"});
}

TEST(BrokerConfig, CertificatesNeedASchemeWithTlsAndEachOther) {
  expect_error(store_of("redis://a", "ca_file = \"x\"\n"), {"store.bus.ca_file", "TLS"});
  expect_error(store_of("rediss://a", "cert_file = \"x\"\n"), {"store.bus.cert_file", "key_file"});
  expect_error(store_of("rediss://a", "key_file = \"x\"\n"), {"store.bus.key_file", "cert_file"});
}

TEST(BrokerConfig, ARelayFillsABrokerWithTheTopicsOfItsFormat) {
  const auto topic = [](const std::string& store, const std::string& relay) {
    const auto config = parse_config(
        relay_of(store_of("redis://a", store), "from = \"db\"\nto = \"bus\"\n" + relay),
        "dovetail.toml");
    return config ? config->relays.front().topic : config.error().text;
  };
  EXPECT_EQ(topic("", ""), "{aggregate_type}.events");
  EXPECT_EQ(topic("format = \"raw\"\n", ""), "{aggregate_type}.events");
  EXPECT_EQ(topic("format = \"debezium\"\n", ""), "outbox.event.{aggregate_type}");
  EXPECT_EQ(topic("format = \"debezium\"\n", "topic = \"mine\"\n"), "mine");
}

TEST(BrokerConfig, OrderIsStrictUnlessItIsRelaxedByName) {
  const std::string bus = store_of("redis://a");
  const std::string relay = "from = \"db\"\nto = \"bus\"\n";
  const auto relaxed = [&](const std::string& more) {
    const auto config = parse_config(relay_of(bus, relay + more), "dovetail.toml");
    EXPECT_TRUE(config) << (config ? "" : config.error().text);
    return config && config->relays.front().options.order_relaxed;
  };
  EXPECT_FALSE(relaxed(""));
  EXPECT_FALSE(relaxed("order = \"strict\"\n"));
  EXPECT_TRUE(relaxed("order = \"relaxed\"\n"));
  expect_error(relay_of(bus, relay + "order = \"none\"\n"),
               {"relay.order", "\"strict\", \"relaxed\""});
}

TEST(BrokerConfig, ARelayReadsABrokerIntoAMailboxAndKeepsItsTopics) {
  const std::string bus = store_of("redis://a", "read = [\"orders\"]\n");
  const std::string relay = "from = \"bus\"\nto = \"db\"\n";
  const auto config = parse_config(relay_of(bus, relay), "dovetail.toml");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->relays.front().topic, "");
  EXPECT_EQ(config->find_store("bus")->broker.group, "r") << "that of the relay";
  const auto own = parse_config(relay_of(bus, relay + "topic = \"in\"\n"), "dovetail.toml");
  ASSERT_TRUE(own) << own.error().text;
  EXPECT_EQ(own->relays.front().topic, "in");

  const std::string elsewhere = "[store.pg]\nurl = \"postgres:host=x\"\n";
  expect_error(relay_of(bus + elsewhere, "from = \"bus\"\nto = \"pg\"\n"), {"relay.to", "SQLite"});
  expect_error(relay_of(bus, "from = \"bus\"\nto = \"bus\"\n"), {"relay.to", "SQLite"});
  expect_error(relay_of(store_of("redis://a"), relay), {"relay.from", "\"read\""});
  expect_error(relay_of(bus, relay + "lanes = 4\n"), {"relay.lanes", "is Redis", "remove it"});
  expect_error(relay_of(bus, relay + "[relay.table]\nname = \"t\"\n"),
               {"relay.table", "is Redis", "remove it"});
  expect_error(relay_of(bus, relay + "[[relay]]\nname = \"s\"\n" + relay),
               {"relay.from", "\"r\"", "own store with its own group"});
  const auto http = parse_config(relay_of(store_of("http://a:8080/in"), relay), "dovetail.toml");
  EXPECT_TRUE(http) << http.error().text;
}

}  // namespace
}  // namespace dovetail::config
