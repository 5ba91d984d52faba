#include <gtest/gtest.h>

#include "dovetail/rabbitmq.h"
#include "kit/origins.h"
#include "rabbitmq/test_broker.h"

namespace dovetail::rabbitmq {
namespace {

TEST(RabbitmqOrigin, MakesSourcesThatReadWhatWasNotSettled) {
  TestBroker broker;
  broker.make_queue("orders");
  broker.publish("amq.default", "orders", "aGVsbG8=",
                 R"({"message_id":"order-17","delivery_mode":2,"headers":{"kind":"placed"}})");
  ReadOptions options;
  options.port = broker.options().port;
  options.virtual_host = broker.options().virtual_host;
  options.queues = {"orders"};
  options.foreign.type = "kind";
  const Result<Origin> made = origin(options);
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->shown, "RabbitMQ at 127.0.0.1:" + std::to_string(options.port));
  expect_to_read_twice(*made, "hello", "placed");
}

TEST(RabbitmqOrigin, UsesThePortOfTheProtocolUnlessAnotherIsNamed) {
  ReadOptions options;
  options.host = "::1";
  options.queues = {"orders"};
  EXPECT_EQ(origin(options)->shown, "RabbitMQ at [::1]:5672");
  options.tls = true;
  EXPECT_EQ(origin(options)->shown, "RabbitMQ at [::1]:5671");
  options.port = 7;
  EXPECT_EQ(origin(options)->shown, "RabbitMQ at [::1]:7");
}

TEST(RabbitmqOrigin, WrongOptionsAreRefused) {
  ReadOptions options;
  EXPECT_FALSE(origin(options)) << "no queues";
  options.queues = {"orders"};
  EXPECT_TRUE(origin(options));
  options.prefetch = 0;
  EXPECT_FALSE(origin(options));
}

}  // namespace
}  // namespace dovetail::rabbitmq
