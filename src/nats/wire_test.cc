// Interoperability with the C client of NATS, which shares no code with ours: it reads what we
// publish, and we read what it publishes.
#include <gtest/gtest.h>
#include <nats/nats.h>

#include <memory>
#include <string>

#include "core/event/batch.h"
#include "core/handle.h"
#include "host/host.h"
#include "nats/sink.h"
#include "nats/source.h"
#include "nats/test_server.h"

namespace dovetail::nats {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using ForeignOptions = Handle<::natsOptions, natsOptions_Destroy>;
using ForeignConnection = Handle<::natsConnection, natsConnection_Destroy>;
using ForeignJetStream = Handle<::jsCtx, jsCtx_Destroy>;
using ForeignSubscription = Handle<::natsSubscription, natsSubscription_Destroy>;
using ForeignMessage = Handle<::natsMsg, natsMsg_Destroy>;

constexpr std::int64_t kWaitMs = 30'000;

class NatsOutside : public testing::Test {
 protected:
  void SetUp() override {
    admin_.make_stream(name_, name_ + ".>");
    const servers::Server server = servers::find("nats");
    natsOptions* options = nullptr;
    ASSERT_EQ(natsOptions_Create(&options), NATS_OK);
    const ForeignOptions owned(options);
    const std::string url = "nats://127.0.0.1:" + std::to_string(server.port());
    natsOptions_SetURL(options, url.c_str());
    natsOptions_SetUserInfo(options, server.field("user").c_str(),
                            server.field("password").c_str());
    natsConnection* connection = nullptr;
    ASSERT_EQ(natsConnection_Connect(&connection, options), NATS_OK);
    connection_.reset(connection);
    jsCtx* jetstream = nullptr;
    ASSERT_EQ(natsConnection_JetStream(&jetstream, connection, nullptr), NATS_OK);
    jetstream_.reset(jetstream);
  }
  void TearDown() override { admin_.drop_stream(name_); }

  void send(const Event& event, Options options = {}) {
    static_cast<ConnectionOptions&>(options) = connection_to();
    NatsSink sink(options, system_clock());
    ASSERT_TRUE(sink.open());
    const Event* const events[] = {&event};
    ASSERT_TRUE(sink.submit(events));
    Outcome outcome;
    Result<bool> known = false;
    while (known && !*known) known = sink.collect({&outcome, 1}, seconds(1));
    ASSERT_TRUE(known);
    ASSERT_EQ(outcome.fate, Fate::confirmed) << outcome.reason;
  }
  ForeignMessage stored() {
    natsSubscription* subscription = nullptr;
    const std::string subject = name_ + ".>";
    EXPECT_EQ(js_SubscribeSync(&subscription, jetstream_.get(), subject.c_str(), nullptr, nullptr,
                               nullptr),
              NATS_OK);
    const ForeignSubscription owned(subscription);
    natsMsg* message = nullptr;
    EXPECT_EQ(natsSubscription_NextMsg(&message, subscription, kWaitMs), NATS_OK);
    return ForeignMessage(message);
  }
  static std::string header(const ForeignMessage& message, const char* name) {
    const char* value = nullptr;
    return natsMsgHeader_Get(message.get(), name, &value) == NATS_OK ? value : "(none)";
  }
  static std::string payload(const ForeignMessage& message) {
    return {natsMsg_GetData(message.get()),
            static_cast<std::size_t>(natsMsg_GetDataLength(message.get()))};
  }
  Event event() const {
    Event one;
    one.id = *EventId::parse("01890a5d-ac96-774b-bcce-b302099a8057");
    one.topic = topic_;
    one.aggregate_type = "order";
    one.aggregate_id = "k \xc3\xbc/7";
    one.type = "Placed";
    one.content_type = "application/octet-stream";
    one.payload = std::string_view("a\0\r\n\xff", 5);
    one.headers = R"({"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})";
    one.created_at = WallTime(seconds(1'700'000'000));
    return one;
  }

  Operator admin_;
  std::string name_ = own_name("OUTSIDE");
  std::string topic_ = name_ + ".placed";
  ForeignConnection connection_;
  ForeignJetStream jetstream_;
};

TEST_F(NatsOutside, AForeignClientReadsSubjectHeadersAndBytes) {
  send(event());
  const ForeignMessage message = stored();
  EXPECT_EQ(natsMsg_GetSubject(message.get()), topic_);
  EXPECT_EQ(payload(message), event().payload);
  EXPECT_EQ(header(message, "Nats-Msg-Id"), "01890a5d-ac96-774b-bcce-b302099a8057");
  EXPECT_EQ(header(message, "ce-specversion"), "1.0");
  EXPECT_EQ(header(message, "ce-id"), "01890a5d-ac96-774b-bcce-b302099a8057");
  EXPECT_EQ(header(message, "ce-source"), "dovetail");
  EXPECT_EQ(header(message, "ce-type"), "Placed");
  EXPECT_EQ(header(message, "ce-subject"), "k%20%C3%BC/7");
  EXPECT_EQ(header(message, "traceparent"),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
}

TEST_F(NatsOutside, AConsumerOfDebeziumsRouterFindsIdAndKey) {
  Options options;
  options.message.format = MessageFormat::debezium;
  send(event(), options);
  const ForeignMessage message = stored();
  EXPECT_EQ(header(message, "id"), "01890a5d-ac96-774b-bcce-b302099a8057");
  EXPECT_EQ(header(message, "Message-Key"), "k \xc3\xbc/7");
  EXPECT_EQ(header(message, "ce-id"), "(none)");
  EXPECT_EQ(payload(message), event().payload);
}

TEST_F(NatsOutside, APlainSubscriberHearsCoreNats) {
  natsSubscription* subscription = nullptr;
  const std::string subject = name_ + "core.>";
  ASSERT_EQ(natsConnection_SubscribeSync(&subscription, connection_.get(), subject.c_str()),
            NATS_OK);
  const ForeignSubscription owned(subscription);
  ASSERT_EQ(natsConnection_Flush(connection_.get()), NATS_OK);
  Options options;
  options.jetstream = false;
  Event one = event();
  const std::string topic = name_ + "core.x";
  one.topic = topic;
  send(one, options);
  natsMsg* message = nullptr;
  ASSERT_EQ(natsSubscription_NextMsg(&message, subscription, kWaitMs), NATS_OK);
  const ForeignMessage heard(message);
  EXPECT_EQ(natsMsg_GetSubject(heard.get()), topic);
  EXPECT_EQ(header(heard, "ce-type"), "Placed");
  EXPECT_EQ(payload(heard), one.payload);
}

TEST_F(NatsOutside, WhatAForeignClientPublishesIsRead) {
  const auto publish = [&](const std::string& data, const char* name, const char* value) {
    natsMsg* message = nullptr;
    ASSERT_EQ(natsMsg_Create(&message, topic_.c_str(), nullptr, data.data(),
                             static_cast<int>(data.size())),
              NATS_OK);
    const ForeignMessage owned(message);
    if (name != nullptr) {
      ASSERT_EQ(natsMsgHeader_Set(message, name, value), NATS_OK);
    }
    jsPubAck* ack = nullptr;
    ASSERT_EQ(js_PublishMsg(&ack, jetstream_.get(), message, nullptr, nullptr), NATS_OK);
    jsPubAck_Destroy(ack);
  };
  publish("no headers", nullptr, nullptr);
  publish("an id of their own", "order-id", "order/17");
  publish(std::string("\0\xff\r\n", 4), "order-id", "6d9b0a9c-0bb5-4a54-8b22-0a2f4d1d3c11");
  Options options{{connection_to()}};
  options.stream = name_;
  options.group = "reader";
  options.foreign.id = "order-id";
  NatsSource source(options, system_clock());
  ASSERT_TRUE(source.open());
  Batch all;
  const TimePoint end = system_clock().now() + seconds(30);
  while (all.size() < 3 && system_clock().now() < end) {
    Batch some;
    ASSERT_TRUE(source.read(some, Limits{10, 1 << 20, milliseconds(100)}, {}));
    for (const Event& one : some.events()) all.append(one);
  }
  ASSERT_EQ(all.size(), 3U);
  const auto events = all.events();
  EXPECT_EQ(events[0].payload, "no headers");
  EXPECT_EQ(events[0].topic, topic_);
  EXPECT_EQ(events[1].payload, "an id of their own");
  EXPECT_NE(events[1].id, events[0].id);
  EXPECT_EQ(events[2].payload, std::string("\0\xff\r\n", 4));
  EXPECT_EQ(events[2].id.to_string(), "6d9b0a9c-0bb5-4a54-8b22-0a2f4d1d3c11");
  for (const Event& one : events) EXPECT_EQ(one.defect, "");
}

}  // namespace
}  // namespace dovetail::nats
