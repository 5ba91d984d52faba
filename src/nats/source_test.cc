#include "nats/source.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>

#include "core/event/batch.h"
#include "host/host.h"
#include "nats/test_server.h"
#include "servers/standstill.h"
#include "servers/tcp_proxy.h"

namespace dovetail::nats {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Payloads = std::vector<std::string>;

class NatsSourceTest : public testing::Test {
 protected:
  void SetUp() override { admin_.make_stream(name_, name_ + ".>"); }
  void TearDown() override { admin_.drop_stream(name_); }

  Options options() const {
    Options options{{connection_to()}};
    options.stream = name_;
    options.group = "reader";
    options.long_poll = seconds(1);
    return options;
  }
  Options options_by(servers::TcpProxy& proxy) const {
    Options by_proxy = options();
    by_proxy.servers[0].port = static_cast<std::uint16_t>(proxy.port());
    return by_proxy;
  }
  static std::unique_ptr<NatsSource> opened(const Options& with) {
    auto source = std::make_unique<NatsSource>(with, system_clock());
    const Status ready = source->open();
    EXPECT_TRUE(ready) << (ready ? "" : ready.error().text);
    return source;
  }
  static Error open_error(const Options& with) {
    NatsSource source(with, system_clock());
    const Status ready = source.open();
    EXPECT_FALSE(ready);
    return ready ? Error{Errc::stopped, ""} : ready.error();
  }
  // Publishes and waits until the stream has it. `headers` is the whole block.
  void publish(const std::string& payload, const std::string& headers = {},
               const std::string& subject = {}) {
    Connection& connection = admin_.connection();
    bool stored = false;
    append_publish(connection.out(), subject.empty() ? name_ + ".a" : subject,
                   connection.inbox() + "stored", headers, payload);
    const TimePoint end = system_clock().now() + seconds(30);
    while (!stored && system_clock().now() < end)
      ASSERT_TRUE(connection.pump(seconds(1), [&](const Frame& frame) {
        stored = frame.payload.find("\"seq\"") != std::string_view::npos;
      }));
    ASSERT_TRUE(stored);
  }
  void publish_many(int first, int last) {
    for (int i = first; i <= last; ++i) publish(std::to_string(i));
  }
  // Reads until `count` came.
  std::unique_ptr<Batch> read(NatsSource& source, std::size_t count) {
    auto batch = std::make_unique<Batch>();
    const TimePoint end = system_clock().now() + seconds(30);
    while (batch->size() < count && system_clock().now() < end) {
      Batch some;
      const Status status =
          source.read(some, Limits{count - batch->size(), 4 << 20, milliseconds(100)}, {});
      EXPECT_TRUE(status) << (status ? "" : status.error().text);
      if (!status) break;
      for (const Event& event : some.events()) batch->append(event);
    }
    EXPECT_EQ(batch->size(), count);
    return batch;
  }
  static Payloads payloads(const Batch& batch) {
    Payloads all;
    for (const Event& event : batch.events()) all.emplace_back(event.payload);
    return all;
  }
  static Payloads numbers(int first, int last) {
    Payloads all;
    for (int i = first; i <= last; ++i) all.push_back(std::to_string(i));
    return all;
  }
  static void settle(NatsSource& source, const Batch& batch) {
    ASSERT_TRUE(source.settle(batch, std::vector<Settled>(batch.size(), Settled::delivered)));
    const Status flushed = source.flush();
    ASSERT_TRUE(flushed) << flushed.error().text;
  }
  std::int64_t consumer_number(const std::string& what) {
    return admin_.ask("CONSUMER.INFO." + name_ + ".reader").json().get(what).number_or(-1);
  }

  Operator admin_;
  std::string name_ = own_name("SOURCE");
};

TEST_F(NatsSourceTest, WhatADeadReaderHadComesFirstAndInOrderToTheNext) {
  publish_many(1, 10);
  {
    servers::TcpProxy proxy(servers::find("nats").port());
    const auto first = opened(options_by(proxy));
    settle(*first, *read(*first, 3));
    EXPECT_EQ(payloads(*read(*first, 7)), numbers(4, 10));
    proxy.cut();  // closed without notice
  }
  publish_many(11, 15);
  const TimePoint start = system_clock().now();
  const auto second = opened(options());
  EXPECT_EQ(payloads(*read(*second, 12)), numbers(4, 15));
  EXPECT_LT(system_clock().now() - start, seconds(20)) << "it was asked back, not waited for";
}

TEST_F(NatsSourceTest, WhatWentToAConnectionThatIsNotKnownToBeDeadComesInOrder) {
  servers::TcpProxy proxy(servers::find("nats").port());
  const auto first = opened(options_by(proxy));
  publish_many(1, 3);
  EXPECT_EQ(payloads(*read(*first, 3)), numbers(1, 3));
  Batch none;
  ASSERT_TRUE(first->read(none, Limits{}, {}));  // leaves a request at the server
  proxy.stall();
  publish_many(4, 6);  // these answer that request
  const auto second = opened(options());
  publish_many(7, 9);
  EXPECT_EQ(payloads(*read(*second, 9)), numbers(1, 9));
}

TEST_F(NatsSourceTest, WhatGoesAstrayAfterOpeningHoldsTheNewerBack) {
  servers::TcpProxy proxy(servers::find("nats").port());
  Options three = options_by(proxy);
  three.prefetch = 3;
  three.long_poll = seconds(20);
  const auto first = opened(three);
  Batch none;
  ASSERT_TRUE(first->read(none, Limits{}, {}));  // leaves a request for three at the server
  const TimePoint end = system_clock().now() + seconds(30);
  while (consumer_number("num_waiting") == 0 && system_clock().now() < end)
    std::this_thread::sleep_for(milliseconds(1));
  proxy.stall();
  const auto second = opened(options());  // there is nothing to ask back
  publish_many(1, 6);                     // three of them answer the first reader's request
  EXPECT_EQ(payloads(*read(*second, 6)), numbers(1, 6));
}

TEST_F(NatsSourceTest, OpeningAgainAsksBackWhatWasReadAtOnce) {
  publish_many(1, 5);
  const auto source = opened(options());
  read(*source, 5);
  ASSERT_TRUE(source->open());
  publish_many(6, 7);
  EXPECT_EQ(payloads(*read(*source, 7)), numbers(1, 7));
}

TEST_F(NatsSourceTest, WhatTakesLongIsNotDeliveredAgain) {
  const servers::Standstill standstill;
  publish_many(1, 5);
  Options short_wait = options();
  short_wait.redeliver_after = seconds(5);
  const auto source = opened(short_wait);
  const auto batch = read(*source, 5);
  Batch more;
  const TimePoint end = system_clock().now() + seconds(7);
  while (system_clock().now() < end)
    ASSERT_TRUE(source->read(more, Limits{10, 1 << 20, milliseconds(100)}, {}));
  EXPECT_TRUE(more.empty());
  if (standstill.is_below(short_wait.redeliver_after / 2)) {
    EXPECT_EQ(consumer_number("num_redelivered"), 0) << "the server was asked for patience";
  }
  settle(*source, *batch);
  EXPECT_EQ(consumer_number("num_ack_pending"), 0);
}

TEST_F(NatsSourceTest, ASecondCopyOfWhatIsStillAtWorkIsNotGivenOut) {
  publish_many(1, 5);
  Options short_wait = options();
  short_wait.redeliver_after = milliseconds(500);
  const auto source = opened(short_wait);
  const auto batch = read(*source, 5);
  std::this_thread::sleep_for(milliseconds(1200));  // nobody extends their time
  publish_many(6, 6);
  EXPECT_EQ(payloads(*read(*source, 1)), numbers(6, 6));
  settle(*source, *batch);
  EXPECT_EQ(consumer_number("num_ack_pending"), 1);
}

TEST_F(NatsSourceTest, AFlushThatIsNotAnsweredIsAnError) {
  publish_many(1, 2);
  servers::TcpProxy proxy(servers::find("nats").port());
  Options by_proxy = options_by(proxy);
  by_proxy.request_timeout = milliseconds(300);
  const auto source = opened(by_proxy);
  const auto batch = read(*source, 2);
  proxy.stall();
  ASSERT_TRUE(source->settle(*batch, std::vector<Settled>(2, Settled::delivered)));
  const Status flushed = source->flush();
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, Errc::unavailable);
}

TEST_F(NatsSourceTest, AServerThatFallsSilentIsNoticed) {
  servers::TcpProxy proxy(servers::find("nats").port());
  Options by_proxy = options_by(proxy);
  by_proxy.request_timeout = milliseconds(300);
  by_proxy.long_poll = milliseconds(300);
  const auto source = opened(by_proxy);
  proxy.stall();
  Batch batch;
  Status status;
  const TimePoint end = system_clock().now() + seconds(30);
  while (status && system_clock().now() < end)
    status = source->read(batch, Limits{10, 1 << 20, milliseconds(100)}, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::unavailable);
}

TEST_F(NatsSourceTest, ADeletedConsumerIsNoticedAndMadeAgain) {
  const auto source = opened(options());
  Batch batch;
  ASSERT_TRUE(source->read(batch, Limits{}, {}));
  const TimePoint end = system_clock().now() + seconds(30);
  while (consumer_number("num_waiting") == 0 && system_clock().now() < end)
    std::this_thread::sleep_for(milliseconds(1));
  admin_.ask("CONSUMER.DELETE." + name_ + ".reader");
  Status status;
  while (status && system_clock().now() < end)
    status = source->read(batch, Limits{10, 1 << 20, milliseconds(100)}, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::unavailable);
  ASSERT_TRUE(source->open());
  publish_many(1, 1);
  EXPECT_EQ(payloads(*read(*source, 1)), numbers(1, 1));
}

TEST_F(NatsSourceTest, AReplayHasTheIdOfTheEvent) {
  const std::string id = "7b1d4a52-0d2c-4b0a-9c57-3d0f8d2f3a11";
  publish("first", "NATS/1.0\r\nNats-Msg-Id: " + id + "\r\n\r\n");
  publish("replay", "NATS/1.0\r\nNats-Msg-Id: " + id + ":2\r\n\r\n");
  publish("another", "NATS/1.0\r\nNats-Msg-Id: order:2\r\n\r\n");
  const auto source = opened(options());
  const auto batch = read(*source, 3);
  EXPECT_EQ(batch->events()[0].id.to_string(), id);
  EXPECT_EQ(batch->events()[1].id.to_string(), id);
  EXPECT_NE(batch->events()[2].id.to_string(), id);
}

TEST_F(NatsSourceTest, MessagesOfOthersBecomeEvents) {
  publish("plain");
  publish("with id", "NATS/1.0\r\norder-id: 7b1d4a52-0d2c-4b0a-9c57-3d0f8d2f3a11\r\n\r\n");
  publish(std::string("\0\xff", 2), "NATS/1.0\r\nNats-Msg-Id: native\r\nkind: Changed\r\n\r\n");
  Options foreign = options();
  foreign.foreign.id = "order-id";
  foreign.foreign.type = "kind";
  const auto source = opened(foreign);
  const auto batch = read(*source, 3);
  const auto events = batch->events();
  EXPECT_EQ(events[0].payload, "plain");
  EXPECT_EQ(events[0].topic, name_ + ".a");
  EXPECT_EQ(events[0].position, 1);
  EXPECT_EQ(events[1].id.to_string(), "7b1d4a52-0d2c-4b0a-9c57-3d0f8d2f3a11");
  EXPECT_EQ(events[2].payload, std::string("\0\xff", 2));
  EXPECT_EQ(events[2].type, "Changed");
  for (const Event& event : events) EXPECT_EQ(event.defect, "");
  // The same ids when they are read again.
  ASSERT_TRUE(source->open());
  const auto again = read(*source, 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(again->events()[i].id, events[i].id);
}

TEST_F(NatsSourceTest, TheKeyCanBeTheLastTokenOfTheSubject) {
  publish("x", {}, name_ + ".a.order%207");
  Options keyed = options();
  keyed.key_in_subject = true;
  const auto source = opened(keyed);
  const auto batch = read(*source, 1);
  EXPECT_EQ(batch->events()[0].topic, name_ + ".a");
  EXPECT_EQ(batch->events()[0].aggregate_id, "order 7");
}

TEST_F(NatsSourceTest, TheStreamIsFoundByASubjectAndOthersAreLeftOut) {
  publish("other", {}, name_ + ".b");
  publish("wanted", {}, name_ + ".a");
  Options filtered = options();
  filtered.stream.clear();
  filtered.subjects = {name_ + ".a"};
  const auto source = opened(filtered);
  EXPECT_EQ(payloads(*read(*source, 1)), (Payloads{"wanted"}));
}

TEST_F(NatsSourceTest, AMissingStreamIsUnavailableUnlessItIsToBeMade) {
  Options missing = options();
  missing.stream = name_ + "2";
  missing.subjects = {name_ + "2.>"};
  const Error error = open_error(missing);
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_NE(error.text.find("create it"), std::string::npos) << error.text;
  admin_.make_stream(name_ + "2", name_ + "2.>");
  {
    const auto late = opened(missing);
    publish("0", {}, name_ + "2.x");
    read(*late, 1);
  }
  admin_.drop_stream(name_ + "2");
  missing.declare = true;
  const auto source = opened(missing);
  publish("1", {}, name_ + "2.x");
  read(*source, 1);
  admin_.drop_stream(name_ + "2");
}

TEST_F(NatsSourceTest, AConsumerThatWouldLoseMessagesIsRejected) {
  const auto make = [this](const std::string& durable, const std::string& more) {
    admin_.ask("CONSUMER.DURABLE.CREATE." + name_ + "." + durable,
               "{\"stream_name\":\"" + name_ + "\",\"config\":{\"durable_name\":\"" + durable +
                   "\"," + more + "}}");
  };
  make("limited", R"("ack_policy":"explicit","max_deliver":5)");
  make("careless", R"("ack_policy":"all")");
  make("pushed", R"("ack_policy":"explicit","deliver_subject":"somewhere")");
  make("narrow", R"("ack_policy":"explicit","filter_subject":")" + name_ + R"(.b")");
  for (const char* durable : {"limited", "careless", "pushed", "narrow"}) {
    Options with = options();
    with.group = durable;
    const Error error = open_error(with);
    EXPECT_EQ(error.code, Errc::rejected) << durable;
    EXPECT_NE(error.text.find("choose another name"), std::string::npos) << error.text;
  }
}

TEST_F(NatsSourceTest, WrongNamesAndTooManySubjectsAreRejected) {
  Options with = options();
  with.group = "not.a.name";
  EXPECT_EQ(open_error(with).code, Errc::rejected);
  with = options();
  with.stream.clear();
  EXPECT_EQ(open_error(with).code, Errc::rejected);
  with = options();
  with.subjects = {name_ + ".a", name_ + ".b"};
  const Error error = open_error(with);
  EXPECT_EQ(error.code, Errc::rejected) << "Debian's server is older than 2.10";
}

TEST_F(NatsSourceTest, ManyMessagesPassThroughASmallWindow) {
  Options small = options();
  small.prefetch = 7;
  small.prefetch_bytes = 1;
  small.ack_pending_max = 20;
  publish_many(1, 200);
  const auto source = opened(small);
  std::vector<std::string> all;
  while (all.size() < 200) {
    const auto batch = read(*source, 10);
    for (const Event& event : batch->events()) all.emplace_back(event.payload);
    settle(*source, *batch);
    if (HasFailure()) break;
  }
  EXPECT_EQ(all, numbers(1, 200));
}

}  // namespace
}  // namespace dovetail::nats
