// Interoperability with kcat, which knows nothing of dovetail: it reads what the sink publishes,
// and publishes what the source reads.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "host/host.h"
#include "kafka/sink.h"
#include "kafka/source.h"
#include "kafka/test_cluster.h"
#include "kafka/test_events.h"
#include "memory/stored_event.h"

namespace dovetail::kafka {
namespace {

class KafkaOutsideTest : public testing::Test {
 protected:
  void SetUp() override { cluster_.create_topic("orders"); }

  std::string kcat(const std::string& arguments) {
    const std::string command = "kcat -q -X log_level=0 -b " + cluster_.address() + " -t " +
                                cluster_.prefix() + "orders " + arguments;
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string out;
    std::array<char, 4096> some{};
    while (const std::size_t read = fread(some.data(), 1, some.size(), pipe.get()))
      out.append(some.data(), read);
    return out;
  }
  std::string consume(const std::string& format) {
    return kcat("-C -e -o beginning -f '" + format + "'");
  }
  void publish(const Options& options, const Event* event) {
    KafkaSink sink(options, system_clock());
    ASSERT_TRUE(sink.open());
    ASSERT_EQ(deliver_once(sink, {event})[0].fate, Fate::confirmed);
  }
  std::vector<StoredEvent> read(std::size_t count, const ForeignNames& foreign = {}) {
    Options options = cluster_.options();
    options.topics = {"orders"};
    options.foreign = foreign;
    KafkaSource source(options, system_clock());
    EXPECT_TRUE(source.open());
    std::vector<StoredEvent> events;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (events.size() < count && std::chrono::steady_clock::now() < end) {
      Batch batch;
      EXPECT_TRUE(source.read(batch, Limits{100, 1 << 20, std::chrono::milliseconds(100)}, {}));
      for (const Event& event : batch.events()) {
        EXPECT_EQ(event.defect, "");
        events.emplace_back(event);
      }
    }
    EXPECT_EQ(events.size(), count);
    return events;
  }
  std::string file_of(const std::string& bytes) {
    const auto path = std::filesystem::temp_directory_path() / (cluster_.prefix() + "message");
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  TestCluster cluster_;
  TestEvents events_;
};

TEST_F(KafkaOutsideTest, KcatSeesKeyHeadersAndBytesOfACloudEvent) {
  const std::string payload("a\x00\xff\r\n\"b", 7);
  const Event* const event =
      &events_.make("orders", "order-17", payload, R"({"traceparent":"00-ab-cd-01"})");
  publish(cluster_.options(), event);
  EXPECT_EQ(consume("%s"), payload);
  EXPECT_EQ(consume("%k"), "order-17");
  const std::string headers = consume("%h");
  for (const std::string& wanted :
       {std::string("ce_specversion=1.0"), "ce_id=" + event->id.to_string(),
        std::string("ce_source=dovetail"), std::string("ce_type=changed"),
        std::string("ce_subject=order-17"), std::string("content-type=application/json"),
        std::string("traceparent=00-ab-cd-01")})
    EXPECT_NE(headers.find(wanted), std::string::npos) << wanted << " in " << headers;
}

TEST_F(KafkaOutsideTest, KcatSeesWhatDebeziumsRouterWouldHaveSent) {
  Options options = cluster_.options();
  options.message.format = MessageFormat::debezium;
  const Event* const event = &events_.make("orders", "order-17", R"({"total":3})");
  publish(options, event);
  EXPECT_EQ(consume("%k|%s"), R"(order-17|{"total":3})");
  EXPECT_NE(consume("%h").find("id=" + event->id.to_string()), std::string::npos);
}

TEST_F(KafkaOutsideTest, AMessageOfOthersHasItsIdInAConfiguredHeader) {
  const std::string id = "0190f8a2-7b1c-7000-8000-00000000002a";
  kcat("-P -k customer-5 -H message-id=" + id + " -H kind=placed " + file_of("{\"a\":1}"));
  ForeignNames foreign;
  foreign.id = "message-id";
  foreign.type = "kind";
  const auto events = read(1, foreign);
  EXPECT_EQ(events[0].id.to_string(), id);
  EXPECT_EQ(events[0].type, "placed");
  EXPECT_EQ(events[0].aggregate_id, "customer-5");
  EXPECT_EQ(events[0].payload, "{\"a\":1}");
}

TEST_F(KafkaOutsideTest, AMessageWithoutIdGetsTheSameOneEachTimeItIsRead) {
  kcat("-P " + file_of("plain"));
  const auto first = read(1);
  const auto again = read(1);
  EXPECT_EQ(first[0].id, again[0].id);
  EXPECT_EQ(first[0].payload, "plain");
}

TEST_F(KafkaOutsideTest, AKeyThatIsNoTextIsWrittenInHexadecimal) {
  kcat("-P -K : -l " + file_of(std::string("\xff\xfe\x01:bytes", 9)));
  const auto events = read(1);
  EXPECT_EQ(events[0].aggregate_id, "0xfffe01");
  EXPECT_EQ(events[0].payload, "bytes");
}

TEST_F(KafkaOutsideTest, CloudEventsOfOthersAreReadAsSuch) {
  const std::string id = "0190f8a2-7b1c-7000-8000-00000000002b";
  kcat("-P -k k -H ce_specversion=1.0 -H ce_id=" + id +
       " -H ce_type=shipped -H ce_source=/warehouse -H ce_subject=order-9 -H "
       "content-type=text/plain " +
       file_of("on its way"));
  const auto events = read(1);
  EXPECT_EQ(events[0].type, "shipped");
  EXPECT_EQ(events[0].aggregate_id, "order-9");
  EXPECT_EQ(events[0].content_type, "text/plain");
  EXPECT_EQ(events[0].payload, "on its way");
}

}  // namespace
}  // namespace dovetail::kafka
