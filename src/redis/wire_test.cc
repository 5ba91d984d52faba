// Interoperability: redis-cli reads what we publish and writes what we read.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "redis/sink.h"
#include "redis/source.h"
#include "redis/test_server.h"

namespace dovetail::redis {
namespace {

class RedisOutsideTest : public testing::Test {
 protected:
  // The answer of redis-cli to one command; bytes that are not text have the form \xff.
  std::string cli(const std::string& command) {
    const std::string call =
        "redis-cli --no-raw -h " + options().host + " -p " + std::to_string(options().port) +
        " -n " + std::to_string(options().database) + " <<'END'\n" + command + "\nEND\n";
    std::string output;
    FILE* const pipe = popen(call.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    if (pipe == nullptr) return {};
    char text[4096];
    while (const std::size_t count = std::fread(text, 1, sizeof text, pipe))
      output.append(text, count);
    EXPECT_EQ(pclose(pipe), 0) << output;
    return output;
  }
  // The values of a stream's only entry, one per line, without the numbers before them.
  std::string fields(const std::string& stream) {
    const std::string answer = cli("XRANGE " + stream + " - +");
    std::string values;
    std::size_t skipped = 0;  // the entry's id
    for (std::size_t at = 0; at < answer.size();) {
      const std::size_t end = std::min(answer.find('\n', at), answer.size());
      const std::string line = answer.substr(at, end - at);
      at = end + 1;
      if (const std::size_t quote = line.find('"'); quote != std::string::npos && skipped++ > 0)
        values += line.substr(quote) + "\n";
    }
    return values;
  }
  Outcome publish(const Event& event, const Options& options) {
    RedisSink sink(options, system_clock());
    const Status opened = sink.open();
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
    return send(sink, {&event})[0];
  }
  const Event& read_one(const Options& options) {
    RedisSource source(options, system_clock());
    EXPECT_TRUE(source.open());
    batch_.clear();
    EXPECT_TRUE(source.read(batch_, Limits{}, {}));
    EXPECT_EQ(batch_.size(), 1U);
    static const Event kNone;
    return batch_.empty() ? kNone : batch_.events()[0];
  }
  Event& awkward() {
    Event& event =
        events_.make("orders", "k'\"\n\t\\ \xc3\xbc", std::string_view("a\0b\xff\r\n", 6));
    event.id = *EventId::parse("01890a5d-ac96-774b-bcce-b302099a8057");
    event.created_at = WallTime(std::chrono::seconds(1'700'000'000));
    event.headers = R"({"traceparent":"00-ab","empty":"","note":" \"quoted\" \u00fc {x}"})";
    return event;
  }
  const Options& options() const { return database_.options(); }

  TestDatabase database_{own_server().server()};
  TestEvents events_;
  Batch batch_;
};

TEST_F(RedisOutsideTest, CloudEventsAreReadByteForByte) {
  ASSERT_EQ(publish(awkward(), options()).fate, Fate::confirmed);
  EXPECT_EQ(fields("orders"),
            R"("key"
"k'\"\n\t\\ \xc3\xbc"
"ce_specversion"
"1.0"
"ce_id"
"01890a5d-ac96-774b-bcce-b302099a8057"
"ce_source"
"dovetail"
"ce_type"
"changed"
"ce_time"
"2023-11-14T22:13:20.000000Z"
"ce_subject"
"k'\"\n\t\\ \xc3\xbc"
"ce_aggregatetype"
"order"
"content-type"
"application/json"
"traceparent"
"00-ab"
"empty"
""
"note"
" \"quoted\" \xc3\xbc {x}"
"data"
"a\x00b\xff\r\n"
)");
}

TEST_F(RedisOutsideTest, TheDebeziumFormatHasItsIdInAField) {
  Options debezium = options();
  debezium.message.format = MessageFormat::debezium;
  Event& event = awkward();
  event.headers = "";
  event.topic = "outbox.event.order";
  ASSERT_EQ(publish(event, debezium).fate, Fate::confirmed);
  EXPECT_EQ(fields("outbox.event.order"),
            R"("key"
"k'\"\n\t\\ \xc3\xbc"
"id"
"01890a5d-ac96-774b-bcce-b302099a8057"
"data"
"a\x00b\xff\r\n"
)");
}

TEST_F(RedisOutsideTest, ARawEntryHasKeyAndPayloadInTheFieldsThatAreWanted) {
  Options raw = options();
  raw.message.format = MessageFormat::raw;
  raw.payload_field = "body";
  raw.key_header = "id";
  Event& event = events_.make("orders", "7", "{}");
  ASSERT_EQ(publish(event, raw).fate, Fate::confirmed);
  EXPECT_EQ(fields("orders"), "\"id\"\n\"7\"\n\"body\"\n\"{}\"\n");
}

TEST_F(RedisOutsideTest, AForeignEntryWithAnIdInAConfiguredFieldIsTaken) {
  cli(R"(XADD orders * message_id "order 5, third change" shop "eu" data "{\"total\": 3}")");
  Options foreign = options();
  foreign.foreign.id = "message_id";
  const EventId first = read_one(foreign).id;
  const Event& event = read_one(foreign);
  EXPECT_EQ(event.id, first);
  EXPECT_EQ(event.defect, "");
  EXPECT_EQ(event.payload, "{\"total\": 3}");
  EXPECT_EQ(event.topic, "orders");
  EXPECT_EQ(event.aggregate_id, "");
  EXPECT_EQ(event.headers, R"({"shop":"eu"})");
  // The same name elsewhere is the same event.
  cli(R"(DEL orders)");
  cli(R"(XADD orders * message_id "order 5, third change" data "x")");
  EXPECT_EQ(read_one(foreign).id, first);
}

TEST_F(RedisOutsideTest, AForeignEntryWithAUuidKeepsIt) {
  cli(R"(XADD orders 5-1 id 01890a5d-ac96-774b-bcce-b302099a8057 key 7 data "x")");
  const Event& event = read_one(options());
  EXPECT_EQ(event.id.to_string(), "01890a5d-ac96-774b-bcce-b302099a8057");
  EXPECT_EQ(event.aggregate_id, "7");
  EXPECT_EQ(event.created_at, WallTime(std::chrono::milliseconds(5)));
}

TEST_F(RedisOutsideTest, AForeignEntryWithoutIdAndWithABinaryKeyIsTaken) {
  cli(R"(XADD orders * key "\xff\x00\x01" note "\xfe" data "a\x00b")");
  const Event& event = read_one(options());
  EXPECT_EQ(event.defect, "");
  EXPECT_EQ(event.aggregate_id, "0xff0001");
  EXPECT_EQ(event.headers, R"({"note":"0xfe"})");
  EXPECT_EQ(event.payload, std::string_view("a\0b", 3));
  EXPECT_NE(event.key_hash, 0U);
}

TEST_F(RedisOutsideTest, WhatAnotherConsumerOfTheGroupHasAcknowledgedDoesNotCome) {
  cli("XGROUP CREATE orders test 0 MKSTREAM");
  cli("XADD orders 1-1 data first");
  cli("XADD orders 2-1 data second");
  cli("XREADGROUP GROUP test by-hand COUNT 1 STREAMS orders >");
  cli("XACK orders test 1-1");
  EXPECT_EQ(read_one(options()).payload, "second");
}

}  // namespace
}  // namespace dovetail::redis
