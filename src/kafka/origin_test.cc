#include <gtest/gtest.h>

#include "core/relay/source.h"
#include "dovetail/kafka.h"
#include "host/host.h"
#include "kafka/sink.h"
#include "kafka/test_cluster.h"
#include "kafka/test_events.h"

namespace dovetail::kafka {
namespace {

TEST(KafkaOrigin, MakesSourcesThatReadWhereTheGroupStopped) {
  TestCluster cluster;
  cluster.create_topic("orders");
  TestEvents events;
  KafkaSink sink(cluster.options(), system_clock());
  ASSERT_TRUE(sink.open());
  const std::vector<const Event*> sent = {&events.make("orders", "1", "first"),
                                          &events.make("orders", "1", "second")};

  ReadOptions options;
  options.brokers = cluster.address();
  options.topics = {cluster.prefix() + "orders"};
  options.group = cluster.prefix() + "stock";
  const Result<Origin> made = origin(options);
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->shown, "Kafka at " + cluster.address());
  for (const Event* one : sent) {
    ASSERT_EQ(deliver(sink, {one})[0].fate, Fate::confirmed);
    Result<std::unique_ptr<Source>> source = made->make(system_clock(), std::chrono::seconds(3));
    ASSERT_TRUE(source && (*source)->open());
    Batch batch;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (batch.empty() && std::chrono::steady_clock::now() < end)
      ASSERT_TRUE((*source)->read(batch, Limits{10, 1 << 20, std::chrono::milliseconds(100)}, {}));
    ASSERT_EQ(batch.size(), 1U);
    EXPECT_EQ(batch.events()[0].id, one->id);
    ASSERT_TRUE((*source)->settle(batch, std::vector<Settled>(1, Settled::delivered)));
    ASSERT_TRUE((*source)->flush());
  }
}

TEST(KafkaOrigin, WrongOptionsAreRefused) {
  ReadOptions options;
  options.brokers = "127.0.0.1:1";
  EXPECT_FALSE(origin(options)) << "no topics, no group";
  options.topics = {"orders"};
  options.group = "stock";
  EXPECT_TRUE(origin(options));
  options.properties["enable.auto.commit"] = "true";
  EXPECT_FALSE(origin(options));
  options.properties = {{"no.such.property", "1"}};
  EXPECT_FALSE(origin(options));
}

}  // namespace
}  // namespace dovetail::kafka
