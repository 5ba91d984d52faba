#include "kafka/client.h"

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include <string>

namespace dovetail::kafka {
namespace {

std::string value_of(const Properties& properties, std::string_view name) {
  std::string found;
  for (const auto& [known, value] : properties)
    if (known == name) found = value;
  return found;
}

TEST(KafkaProperties, AProducerConfirmsOnlyWhatAllReplicasInSyncHave) {
  const auto properties = properties_of({}, Role::producer);
  ASSERT_TRUE(properties);
  EXPECT_EQ(value_of(*properties, "acks"), "all");
  EXPECT_EQ(value_of(*properties, "enable.idempotence"), "true");
  EXPECT_EQ(value_of(*properties, "allow.auto.create.topics"), "false");
}

TEST(KafkaProperties, AConsumerCommitsNothingByItself) {
  const auto properties = properties_of({}, Role::consumer);
  ASSERT_TRUE(properties);
  EXPECT_EQ(value_of(*properties, "enable.auto.commit"), "false");
  EXPECT_EQ(value_of(*properties, "enable.auto.offset.store"), "false");
  EXPECT_EQ(value_of(*properties, "isolation.level"), "read_committed");
}

TEST(KafkaProperties, WhatPromisesRestOnCannotBeSet) {
  for (const char* name : {"acks",
                           "request.required.acks",
                           "enable.idempotence",
                           "message.timeout.ms",
                           "retries",
                           "max.in.flight",
                           "partitioner",
                           "enable.auto.commit",
                           "enable.auto.offset.store",
                           "offset.store.method",
                           "auto.offset.reset",
                           "isolation.level",
                           "transactional.id",
                           "allow.auto.create.topics",
                           "enable.ssl.certificate.verification",
                           "ssl.endpoint.identification.algorithm",
                           "plugin.library.paths",
                           "bootstrap.servers",
                           "sasl.password",
                           "group.id",
                           "delivery.report.only.error"}) {
    for (const Role role : {Role::producer, Role::consumer, Role::admin}) {
      Options options;
      options.properties[name] = "1";
      const auto properties = properties_of(options, role);
      ASSERT_FALSE(properties) << name;
      EXPECT_EQ(properties.error().code, Errc::rejected);
      EXPECT_NE(properties.error().text.find(name), std::string::npos);
      EXPECT_NE(properties.error().text.find("cannot be set: "), std::string::npos);
    }
  }
}

TEST(KafkaProperties, OthersArePassedOn) {
  Options options;
  options.properties["compression.type"] = "lz4";
  options.properties["topic.metadata.propagation.max.ms"] = "1";
  const auto properties = properties_of(options, Role::producer);
  ASSERT_TRUE(properties);
  EXPECT_EQ(value_of(*properties, "compression.type"), "lz4");
  EXPECT_EQ(value_of(*properties, "topic.metadata.propagation.max.ms"), "1") << "the last counts";
  EXPECT_TRUE(make_configuration(*properties));
}

TEST(KafkaProperties, AValueThatIsRefusedIsNotShownWhereItMayBeASecret) {
  for (const char* name : {"sasl.password", "ssl.key.password", "ssl.key.pem", "no.such.secret"}) {
    const auto made = make_configuration({{name, "hunter2\x01"}, {"no.such", "1"}});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().text.find("hunter2"), std::string::npos) << made.error().text;
  }
}

TEST(KafkaProperties, EveryWayInIsProtectedAsTheOptionsSay) {
  Options options;
  const auto protocol = [&] {
    return value_of(properties_of(options, Role::admin).value(), "security.protocol");
  };
  EXPECT_EQ(protocol(), "plaintext");
  options.tls = true;
  EXPECT_EQ(protocol(), "ssl");
  options.user = "u";
  EXPECT_EQ(protocol(), "sasl_ssl");
  options.tls = false;
  EXPECT_EQ(protocol(), "sasl_plaintext");
}

TEST(KafkaConnectErrors, ACertificateIsTheCauseAlsoWhereTheConnectionIsSaidToBreak) {
  ConnectErrors errors;
  errors.note(RD_KAFKA_RESP_ERR__TRANSPORT, "ssl://b:1/bootstrap: Connect failed");
  EXPECT_FALSE(errors.is_final());
  errors.note(RD_KAFKA_RESP_ERR__TRANSPORT,
              "ssl://b:1/bootstrap: error:0A000086:SSL routines::certificate verify failed");
  EXPECT_TRUE(errors.is_final());
  const Error error = connection_error({}, errors.code(), errors.text());
  EXPECT_NE(error.text.find("certificate names this host"), std::string::npos) << error.text;
}

TEST(KafkaTopics, ANameIsCheckedAsKafkaDoes) {
  EXPECT_EQ(topic_problem("orders.v1_A-9"), "");
  EXPECT_EQ(topic_problem(std::string(249, 'x')), "");
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("a b"),
        std::string("gr\xc3\xbcn"), std::string("a\0b", 3), std::string(250, 'x')})
    EXPECT_NE(topic_problem(name), "") << name;
}

}  // namespace
}  // namespace dovetail::kafka
