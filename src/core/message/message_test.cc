#include "core/message/message.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <new>
#include <string>

#include "core/event/headers.h"
#include "core/event/name_id.h"
#include "core/event/utf8.h"

namespace {
thread_local std::size_t allocations = 0;
}  // namespace

// Not inlined: a sanitizer build would see new and free() side by side and report a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace dovetail {
namespace {

constexpr std::string_view kId = "018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09";
constexpr std::array kDialects = {kKafkaDialect, kAmqpDialect, kNatsDialect, kHttpDialect,
                                  kRedisDialect};
constexpr std::array kFormats = {MessageFormat::cloudevents, MessageFormat::debezium,
                                 MessageFormat::raw};

Event order_placed() {
  Event event;
  event.id = *EventId::parse(kId);
  event.topic = "orders";
  event.aggregate_type = "order";
  event.aggregate_id = "42";
  event.type = "OrderPlaced";
  event.content_type = "application/json";
  event.payload = std::string_view("\0{}\xff", 4);
  event.created_at = WallTime(std::chrono::microseconds(1'709'251'199'000'001));
  return event;
}

MessageWriter writer_of(const MessageDialect& dialect, MessageOptions options = {}) {
  auto made = MessageWriter::make(options, dialect);
  EXPECT_TRUE(made.has_value()) << made.error().text;
  return std::move(*made);
}

MessageOptions options_of(MessageFormat format) {
  MessageOptions options;
  options.format = format;
  return options;
}

// A message and the memory that it points to.
struct Written {
  Arena arena;
  Message message;
  Status status;
  Written(const MessageWriter& writer, const Event& event)
      : status(writer.write(event, arena, message)) {}
  std::string lines() const {
    std::string text;
    for (const auto& [name, value] : message.headers)
      text.append(name).append(": ").append(value).append("\n");
    return text;
  }
};

TEST(MessageWriter, WritesCloudEventsOfKafka) {
  Event event = order_placed();
  event.aggregate_version = 7;
  event.headers = R"({"traceparent":"00-ab-cd-01"})";
  const MessageWriter writer = writer_of(kKafkaDialect);
  const Written written(writer, event);
  ASSERT_TRUE(written.status.has_value());
  EXPECT_EQ(written.lines(),
            "ce_specversion: 1.0\n"
            "ce_id: 018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09\n"
            "ce_source: dovetail\n"
            "ce_type: OrderPlaced\n"
            "ce_time: 2024-02-29T23:59:59.000001Z\n"
            "ce_subject: 42\n"
            "ce_aggregatetype: order\n"
            "ce_aggregateversion: 7\n"
            "content-type: application/json\n"
            "traceparent: 00-ab-cd-01\n");
  EXPECT_EQ(written.message.topic, "orders");
  EXPECT_EQ(written.message.key, "42");
  EXPECT_EQ(written.message.partition, "");
  EXPECT_EQ(written.message.id, kId);
  EXPECT_EQ(written.message.content_type, "application/json");
  EXPECT_EQ(written.message.payload.data(), event.payload.data());
}

TEST(MessageWriter, WritesCloudEventsOfNatsInPrintableCharacters) {
  Event event = order_placed();
  event.aggregate_id = "Euro \xe2\x82\xac \xf0\x9f\x98\x80 100%\"\r\n";
  event.content_type = "text/plain; charset=utf-8";
  const MessageWriter writer = writer_of(kNatsDialect);
  const Written written(writer, event);
  ASSERT_TRUE(written.status.has_value());
  EXPECT_EQ(written.lines(),
            "ce-specversion: 1.0\n"
            "ce-id: 018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09\n"
            "ce-source: dovetail\n"
            "ce-type: OrderPlaced\n"
            "ce-time: 2024-02-29T23:59:59.000001Z\n"
            "ce-subject: Euro%20%E2%82%AC%20%F0%9F%98%80%20100%25%22%0D%0A\n"
            "ce-aggregatetype: order\n"
            "ce-datacontenttype: text/plain;%20charset=utf-8\n");
}

TEST(MessageWriter, LeavesTheContentTypeToBrokersThatHaveAPropertyForIt) {
  const MessageWriter writer = writer_of(kAmqpDialect);
  Event event = order_placed();
  event.aggregate_id = "";
  const Written written(writer, event);
  EXPECT_EQ(written.lines(),
            "cloudEvents:specversion: 1.0\n"
            "cloudEvents:id: 018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09\n"
            "cloudEvents:source: dovetail\n"
            "cloudEvents:type: OrderPlaced\n"
            "cloudEvents:time: 2024-02-29T23:59:59.000001Z\n"
            "cloudEvents:aggregatetype: order\n");
  EXPECT_EQ(written.message.content_type, "application/json");
  EXPECT_EQ(written.message.key, "");
}

TEST(MessageWriter, WritesWhatDebeziumsOutboxRouterWrites) {
  Event event = order_placed();
  event.headers = R"({"b3":"1"})";
  const MessageWriter writer = writer_of(kKafkaDialect, options_of(MessageFormat::debezium));
  const Written written(writer, event);
  EXPECT_EQ(written.lines(), "id: 018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09\nb3: 1\n");
  EXPECT_EQ(written.message.key, "42");
  EXPECT_EQ(written.message.payload, event.payload);
}

TEST(MessageWriter, RawHasOnlyTheEventsHeadersAndThoseOfTemplates) {
  Event event = order_placed();
  event.headers = R"({"a":"1","Kind":"mine","z":"2"})";
  MessageOptions options = options_of(MessageFormat::raw);
  options.headers = {{"kind", "{type}"}, {"event-id", "{id}"}};
  const MessageWriter kafka = writer_of(kKafkaDialect, options);
  EXPECT_EQ(Written(kafka, event).lines(),
            "a: 1\nKind: mine\nz: 2\nkind: OrderPlaced\nevent-id: " + std::string(kId) + "\n");
  const MessageWriter nats = writer_of(kNatsDialect, options);
  EXPECT_EQ(Written(nats, event).lines(),
            "a: 1\nz: 2\nkind: OrderPlaced\nevent-id: " + std::string(kId) + "\n")
      << "where names ignore case, the template replaces the header";
}

TEST(MessageWriter, FillsKeyAndPartitionByTemplate) {
  MessageOptions options;
  options.key = "{aggregate_type}:{aggregate_id}";
  options.partition = "{header.shard}";
  const MessageWriter writer = writer_of(kKafkaDialect, options);
  Event event = order_placed();
  event.headers = R"({"shard":"12"})";
  const Written written(writer, event);
  EXPECT_EQ(written.message.key, "order:42");
  EXPECT_EQ(written.message.partition, "12");
  event.headers = "";
  EXPECT_EQ(Written(writer, event).message.partition, "");
  for (const char* shard : {"-1", "1x", "x", "1.5", "99999999999", " 1"}) {
    const std::string headers = R"({"shard":")" + std::string(shard) + "\"}";
    event.headers = headers;
    const Written refused(writer, event);
    ASSERT_FALSE(refused.status.has_value()) << shard;
    EXPECT_EQ(refused.status.error().code, Errc::rejected);
    EXPECT_NE(refused.status.error().text.find("partition"), std::string::npos);
  }
}

void expect_refused(const MessageDialect& dialect, MessageFormat format, const char* headers,
                    std::string_view name) {
  const MessageWriter writer = writer_of(dialect, options_of(format));
  Event event = order_placed();
  event.headers = headers;
  const Written written(writer, event);
  ASSERT_FALSE(written.status.has_value()) << headers;
  EXPECT_EQ(written.status.error().code, Errc::rejected);
  EXPECT_NE(written.status.error().text.find(name), std::string::npos)
      << written.status.error().text;
}

TEST(MessageWriter, RefusesHeadersThatTheFormatWritesItself) {
  const auto cloudevents = MessageFormat::cloudevents;
  expect_refused(kKafkaDialect, cloudevents, R"({"ce_id":"1"})", "\"ce_id\"");
  expect_refused(kKafkaDialect, cloudevents, R"({"a":"1","ce_aggregateversion":"1"})",
                 "\"ce_aggregateversion\"");
  expect_refused(kKafkaDialect, cloudevents, R"({"content-type":"1"})", "\"content-type\"");
  expect_refused(kNatsDialect, cloudevents, R"({"CE-Id":"1"})", "\"CE-Id\"");
  expect_refused(kNatsDialect, cloudevents, R"({"Content-Type":"1"})", "\"Content-Type\"");
  expect_refused(kHttpDialect, MessageFormat::raw, R"({"Content-Type":"1"})", "\"Content-Type\"");
  expect_refused(kAmqpDialect, cloudevents, R"({"cloudEvents_id":"1"})", "\"cloudEvents_id\"");
  expect_refused(kKafkaDialect, MessageFormat::debezium, R"({"id":"1"})", "\"id\"");
}

TEST(MessageWriter, RefusesHeadersThatCouldNotArriveAsTheyAre) {
  const auto raw = MessageFormat::raw;
  expect_refused(kHttpDialect, raw, R"({"a":"x\r\nb: y"})", "\"a\"");
  expect_refused(kKafkaDialect, raw, R"({"a b":"x"})", "\"a b\"");
  expect_refused(kHttpDialect, raw, R"({"a":" x"})", "\"a\"");
  expect_refused(kNatsDialect, raw, R"({"a":"x\t"})", "\"a\"");
  expect_refused(kKafkaDialect, raw, R"({"a":1})", "malformed headers");
  Event event = order_placed();
  event.headers = R"({"a":" x "})";
  const MessageWriter kafka = writer_of(kKafkaDialect, options_of(raw));
  EXPECT_EQ(Written(kafka, event).lines(), "a:  x \n") << "it can carry spaces";
  MessageOptions options = options_of(raw);
  options.headers = {{"key", "{aggregate_id}"}};
  event.aggregate_id = "1\r\nadmin: true";
  const MessageWriter http = writer_of(kHttpDialect, options);
  EXPECT_FALSE(Written(http, event).status.has_value());
}

TEST(MessageWriter, NamesTheOptionThatIsWrong) {
  const auto error_of = [](const MessageOptions& options) {
    const auto made = MessageWriter::make(options, kNatsDialect);
    return made ? std::string() : made.error().text;
  };
  MessageOptions options;
  options.key = "{nope}";
  EXPECT_NE(error_of(options).find("key of messages: template \"{nope}\""), std::string::npos);
  options = {};
  options.partition = "{";
  EXPECT_NE(error_of(options).find("partition: template \"{\""), std::string::npos);
  options = {};
  options.source = "";
  EXPECT_NE(error_of(options).find("source"), std::string::npos);
  for (const char* name : {"", "a b", "CE-ID", "Content-Type"}) {
    options = {};
    options.headers = {{name, "x"}};
    EXPECT_NE(error_of(options).find("header \"" + std::string(name) + "\""), std::string::npos);
  }
  options = {};
  options.headers = {{"a", "x"}, {"A", "y"}};
  EXPECT_NE(error_of(options).find("header \"A\" occurs twice"), std::string::npos);
  options.headers = {{"a", "{x}"}};
  EXPECT_NE(error_of(options).find("header \"a\": template"), std::string::npos);
}

TEST(MessageWriter, DoesNotAllocateForAnEventOnceItIsWarm) {
  for (const MessageDialect& dialect : kDialects) {
    for (const MessageFormat format : kFormats) {
      MessageOptions options = options_of(format);
      options.key = "{aggregate_type}/{aggregate_id}";
      options.headers = {{"at", "{created_at}"}};
      const MessageWriter writer = writer_of(dialect, options);
      Event event = order_placed();
      event.aggregate_id = "a key with spaces";
      event.aggregate_version = 1;
      event.headers = R"({"traceparent":"00-ab-cd-01","note":"\u00e9"})";
      Arena arena;
      Message message;
      ASSERT_TRUE(writer.write(event, arena, message).has_value());
      arena.clear();
      const std::size_t before = allocations;
      const Status written = writer.write(event, arena, message);
      const std::size_t after = allocations;
      ASSERT_TRUE(written.has_value());
      EXPECT_EQ(after, before);
    }
  }
}

using Headers = std::vector<MessageHeader>;

// An event and its batch.
struct Read {
  Batch batch;
  EventId spare = *EventId::parse("00000000-0000-7000-8000-000000000001");
  Read(const MessageReader& reader, const ReceivedMessage& message) {
    reader.read(message, spare, batch);
  }
  const Event& event() const { return batch.events()[0]; }
};

ReceivedMessage received(const Headers& headers) {
  ReceivedMessage message;
  message.topic = "orders";
  message.key = "42";
  message.headers = headers;
  message.payload = "{}";
  message.position = 9;
  message.place = "orders/3/1234";
  return message;
}

TEST(MessageReader, ReadsCloudEventsOfOthers) {
  const MessageReader reader({}, kNatsDialect);
  const Headers headers = {{"Ce-Specversion", "1.0"},
                           {"ce-id", std::string_view(kId)},
                           {"ce-source", "/shop"},
                           {"ce-type", "com.example.\"x\"%20y"},
                           {"ce-time", "2018-04-05T03:56:24Z"},
                           {"ce-subject", "\"quoted \\\"%e2%82%ac\\\"\""},
                           {"ce-aggregatetype", "order"},
                           {"ce-aggregateversion", "12"},
                           {"ce-datacontenttype", "application/json"},
                           {"ce-partitionkey", "p"},
                           {"traceparent", "00-ab"}};
  ReceivedMessage message = received(headers);
  message.time = WallTime(std::chrono::microseconds(5));
  const Read read(reader, message);
  EXPECT_EQ(read.event().id.to_string(), kId);
  EXPECT_EQ(read.event().type, "com.example.\"x\" y");
  EXPECT_EQ(read.event().aggregate_id, "quoted \"\xe2\x82\xac\"");
  EXPECT_EQ(read.event().aggregate_type, "order");
  EXPECT_EQ(read.event().aggregate_version, 12);
  EXPECT_EQ(read.event().content_type, "application/json");
  EXPECT_EQ(read.event().created_at, WallTime(std::chrono::microseconds(1'522'900'584'000'000)));
  EXPECT_EQ(read.event().headers, R"({"ce-partitionkey":"p","traceparent":"00-ab"})");
  EXPECT_EQ(read.event().topic, "orders");
  EXPECT_EQ(read.event().position, 9);
  EXPECT_EQ(read.event().key_hash, key_hash("order", "quoted \"\xe2\x82\xac\""));
  EXPECT_EQ(read.event().defect, "");
}

TEST(MessageReader, UnderstandsBothPrefixesOfAmqp) {
  const MessageReader reader({}, kAmqpDialect);
  for (const char* name : {"cloudEvents:id", "cloudEvents_id"}) {
    const Headers headers = {{name, kId}};
    const Read read(reader, received(headers));
    EXPECT_EQ(read.event().id.to_string(), kId);
    EXPECT_EQ(read.event().headers, "");
  }
}

TEST(MessageReader, ReadsWhatDebeziumWrites) {
  const MessageReader reader({}, kKafkaDialect);
  const Headers headers = {{"id", kId}, {"eventType", "OrderPlaced"}};
  ReceivedMessage message = received(headers);
  message.topic = "outbox.event.order";
  message.time = WallTime(std::chrono::microseconds(5));
  const Read read(reader, message);
  EXPECT_EQ(read.event().id.to_string(), kId);
  EXPECT_EQ(read.event().aggregate_type, "order");
  EXPECT_EQ(read.event().aggregate_id, "42");
  EXPECT_EQ(read.event().type, "OrderPlaced");
  EXPECT_EQ(read.event().headers, R"({"eventType":"OrderPlaced"})");
  EXPECT_EQ(read.event().created_at, WallTime(std::chrono::microseconds(5)));
}

TEST(MessageReader, TakesTheIdFromTheFirstPlaceThatHasOne) {
  const std::string other = "018f3f5e-7c2a-7b61-9f1e-00000000000";
  const MessageReader reader({.id = "x-id"}, kKafkaDialect);
  const std::array<std::string, 4> ids = {other + "1", other + "2", other + "3", other + "4"};
  Headers headers;
  ReceivedMessage message = received(headers);
  message.native_id = ids[2];
  const auto id_now = [&] {
    message.headers = headers;
    return Read(reader, message).event().id.to_string();
  };
  const std::string place_id = name_id(kMessageNames, message.place).to_string();
  headers = {{"id", ids[3]}, {"ce_id", ids[1]}, {"x-id", ids[0]}};
  EXPECT_EQ(id_now(), ids[0]);
  headers.pop_back();
  EXPECT_EQ(id_now(), ids[1]);
  headers.pop_back();
  EXPECT_EQ(id_now(), ids[2]);
  message.native_id = {};
  EXPECT_EQ(id_now(), ids[3]);
  headers.pop_back();
  EXPECT_EQ(id_now(), place_id);
}

// The ids are those of Python's uuid.uuid5().
TEST(MessageReader, MakesTheSameIdOfTheSameNameEveryTime) {
  const MessageReader reader({}, kKafkaDialect);
  const Headers of_source = {{"ce_id", "order-17"}, {"ce_source", "/shop"}};
  EXPECT_EQ(Read(reader, received(of_source)).event().id.to_string(),
            "63e0b131-e0da-5a07-8328-4e3a919361e4");
  const Headers of_topic = {{"id", "order-17"}};
  EXPECT_EQ(Read(reader, received(of_topic)).event().id.to_string(),
            "7d851472-692d-5758-a67c-0081f2e9cf2c");
  EXPECT_EQ(Read(reader, received({})).event().id.to_string(),
            "b7d5c4d3-a0ab-5fb8-b9c0-3552e33f6633");
}

TEST(MessageReader, TakesHeadersThatAreConfigured) {
  const MessageReader reader(
      {.id = "Msg-Id", .type = "Kind", .aggregate_type = "Entity", .aggregate_id = "Entity-Id"},
      kHttpDialect);
  const Headers headers = {{"msg-id", kId},     {"kind", "shipped"}, {"entity", "parcel"},
                           {"entity-id", "p1"}, {"other", "x"},      {"ce-type", "hidden"}};
  const Read read(reader, received(headers));
  EXPECT_EQ(read.event().id.to_string(), kId);
  EXPECT_EQ(read.event().type, "shipped");
  EXPECT_EQ(read.event().aggregate_type, "parcel");
  EXPECT_EQ(read.event().aggregate_id, "p1");
  EXPECT_EQ(read.event().headers, R"({"other":"x"})");
}

TEST(MessageReader, TheIdIsNotAmongTheHeadersTwice) {
  const MessageReader reader({}, kAmqpDialect);
  const Headers headers = {{"id", kId}, {"a", "b"}};
  ReceivedMessage message = received(headers);
  message.native_id = kId;
  EXPECT_EQ(Read(reader, message).event().headers, R"({"a":"b"})");
  message.native_id = "another";
  EXPECT_EQ(Read(reader, message).event().headers,
            R"({"id":"018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09","a":"b"})");
}

TEST(MessageReader, GivesNamesToWhatAMessageDoesNotSay) {
  const MessageReader reader({}, kKafkaDialect);
  ReceivedMessage message = received({});
  message.key = {};
  const Read read(reader, message);
  EXPECT_EQ(read.event().type, "message");
  EXPECT_EQ(read.event().aggregate_type, "orders");
  EXPECT_EQ(read.event().aggregate_id, "");
  EXPECT_FALSE(read.event().has_key());
  EXPECT_EQ(read.event().content_type, "application/octet-stream");
  EXPECT_EQ(read.event().headers, "");
  EXPECT_EQ(read.event().defect, "");
}

TEST(MessageReader, WritesBytesThatAreNoTextInHexadecimal) {
  const MessageReader reader({}, kKafkaDialect);
  const Headers headers = {{"bytes", std::string_view("\0\xff", 2)},
                           {"lines", "a\nb"},
                           {"a b:\xc3\xa9", "x"},
                           {"", "y"},
                           {"tab", "a\tb\"\\"}};
  ReceivedMessage message = received(headers);
  message.key = std::string_view("\0\x01\xfe", 3);
  const Read read(reader, message);
  EXPECT_EQ(read.event().aggregate_id, "0x0001fe");
  EXPECT_EQ(read.event().headers,
            R"({"bytes":"0x00ff","lines":"0x610a62","a_b___":"x","_":"y","tab":"a\u0009b\"\\"})");
  EXPECT_EQ(read.event().defect, "");
}

void expect_defect(const ReceivedMessage& message, std::string_view why,
                   const MessageDialect& dialect = kKafkaDialect) {
  const MessageReader reader({}, dialect);
  const Read read(reader, message);
  const Event& event = read.event();
  EXPECT_NE(event.defect.find(why), std::string_view::npos) << event.defect;
  EXPECT_NE(event.defect.find("check"), std::string_view::npos) << event.defect;
  EXPECT_EQ(event.payload, message.payload);
  EXPECT_TRUE(is_valid_utf8(event.type) && is_valid_utf8(event.aggregate_type));
  EXPECT_LE(event.type.size(), EventLimits{}.name_bytes_max);
  EXPECT_LE(event.aggregate_type.size(), EventLimits{}.name_bytes_max);
  EXPECT_LE(event.aggregate_id.size(), EventLimits{}.key_bytes_max);
}

TEST(MessageReader, SaysWhyAMessageCannotBecomeAnEvent) {
  ReceivedMessage message = received({});
  message.place = {};
  expect_defect(message, "no id");
  EXPECT_EQ(Read(MessageReader({}, kKafkaDialect), message).event().id.to_string(),
            "00000000-0000-7000-8000-000000000001");

  const std::string euros = [] {
    std::string text;
    while (text.size() <= EventLimits{}.name_bytes_max) text += "\xe2\x82\xac";
    return text;
  }();
  Headers headers = {{"ce_type", euros}};
  expect_defect(received(headers), "type of the message has 258 bytes");
  headers = {{"ce_type", "\xff"}};
  expect_defect(received(headers), "type of the message is not valid UTF-8");
  headers = {{"ce_aggregatetype", euros}};
  expect_defect(received(headers), "aggregate type of the message has");
  headers = {{"ce-type", "%C0%A0"}};
  expect_defect(received(headers), "not valid UTF-8", kNatsDialect);
  const std::string long_key(1025, 'k');
  message = received({});
  message.key = long_key;
  expect_defect(message, "key of the message has 1025 bytes");
  const std::string binary_key(600, '\xff');
  message.key = binary_key;
  expect_defect(message, "key of the message has 1202 bytes");
}

TEST(MessageReader, DoesNotAllocateForAMessageOnceItIsWarm) {
  const MessageReader reader({.id = "x-id"}, kHttpDialect);
  const Headers headers = {{"x-id", "17"}, {"ce-type", "a%20b"}, {"trace", "1"}};
  const ReceivedMessage message = received(headers);
  Batch batch;
  reader.read(message, {}, batch);
  batch.clear();
  const std::size_t before = allocations;
  reader.read(message, {}, batch);
  EXPECT_EQ(allocations, before);
}

rc::Gen<std::string> text_without_controls() {
  return rc::gen::map(rc::gen::container<std::vector<std::uint32_t>>(
                          rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0x20, 0x7f),
                                         rc::gen::inRange<std::uint32_t>(0x80, 0x10ffff))),
                      [](const std::vector<std::uint32_t>& codes) {
                        std::string text;
                        for (const auto code : codes) {
                          if (code < 0xd800 || code > 0xdfff) append_utf8(text, code);
                        }
                        return text;
                      });
}

// Our sources read what our sinks write, in every broker's dialect.
RC_GTEST_PROP(Messages, SurviveTheRoundTripInEveryDialect, ()) {
  const MessageDialect dialect = *rc::gen::elementOf(kDialects);
  const MessageFormat format = *rc::gen::elementOf(kFormats);
  const auto text = text_without_controls();
  const std::string key = *text;
  const std::string type = "t" + *text;
  const std::string kind = "k" + *text;
  std::vector<Header> own;
  for (const std::string& value : *rc::gen::container<std::vector<std::string>>(text)) {
    if (value.starts_with(' ') || value.ends_with(' ')) continue;
    own.push_back({*rc::gen::element<std::string>("traceparent", "Id", "ce", "ce_x", "ce-x", "X.y",
                                                  "cloudEvents_x", "eventType", "ids"),
                   value});
    // These names belong to other formats, and their readers interpret them so.
    const bool is_type = own.back().name == "eventType" && value.size() > 255;
    if ((own.back().name == "Id" || is_type) && format != MessageFormat::cloudevents)
      own.pop_back();
  }
  const std::string headers = *encode_headers(own);
  Event event = order_placed();
  event.aggregate_id = std::string_view(key).substr(0, 1024);
  event.type = type;
  event.aggregate_type = kind;
  event.headers = headers;
  event.aggregate_version = *rc::gen::arbitrary<std::int64_t>();
  RC_PRE(key.size() <= 1024 && type.size() <= 255 && kind.size() <= 255);

  const MessageWriter writer = writer_of(dialect, options_of(format));
  const Written written(writer, event);
  RC_ASSERT(written.status.has_value());
  ReceivedMessage message;
  message.topic = written.message.topic;
  message.key = written.message.key;
  message.headers = written.message.headers;
  message.payload = written.message.payload;
  message.native_id = format == MessageFormat::raw ? written.message.id : std::string_view{};
  if (dialect.content_type_header.empty()) message.content_type = written.message.content_type;
  const Read read(MessageReader({}, dialect), message);
  RC_ASSERT(read.event().id == event.id);
  RC_ASSERT(read.event().aggregate_id == event.aggregate_id);
  RC_ASSERT(read.event().payload == event.payload);
  RC_ASSERT(read.event().headers == event.headers);
  RC_ASSERT(read.event().defect == "");
  if (format != MessageFormat::cloudevents) return;
  RC_ASSERT(read.event().type == event.type);
  RC_ASSERT(read.event().aggregate_type == event.aggregate_type);
  RC_ASSERT(read.event().aggregate_version == event.aggregate_version);
  RC_ASSERT(read.event().content_type == event.content_type);
  RC_ASSERT(read.event().created_at == event.created_at);
}

}  // namespace
}  // namespace dovetail
