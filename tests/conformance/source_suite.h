// What every source must do. An adapter gives a SourceUnderTest and instantiates the suite:
//
//   INSTANTIATE_TEST_SUITE_P(Sqlite, SourceSuite, testing::Values(SourceCase{"outbox", make_it}),
//   case_name);
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "conformance/cases.h"
#include "core/relay/source.h"
#include "kit/ids.h"
#include "memory/stored_event.h"

namespace dovetail::conformance {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct SourceAbilities {
  bool ordered = true;           // along a key
  bool persistent = true;        // published events are there after make()
  bool can_restart = false;      // restart_server() does something
  bool keeps_empty_keys = true;  // accepts events without a key
  // How long a read may wait for existing events: a client that fetches in the background has none
  // right after open().
  Duration arrival_max{0};
};

// One store with one reader.
class SourceUnderTest {
 public:
  virtual ~SourceUnderTest() = default;
  virtual SourceAbilities abilities() const = 0;
  // A new source over the same store, as after a restart of the process.
  virtual std::unique_ptr<Source> make() = 0;
  // Committed when it returns. Any thread.
  virtual void publish(const NewEvent& event) = 0;
  virtual void restart_server() {}
};

struct SourceCase {
  std::string name;
  std::unique_ptr<SourceUnderTest> (*make)();
};

class SourceSuite : public testing::TestWithParam<SourceCase> {
 protected:
  void SetUp() override {
    store_ = GetParam().make();
    reopen();
  }

  void reopen() {
    source_.reset();
    source_ = store_->make();
    const Status opened = source_->open();
    ASSERT_TRUE(opened) << opened.error().text;
  }

  void publish(std::string_view key, std::string_view payload) {
    NewEvent event;
    event.aggregate_type = "order";
    event.aggregate_id = key;
    event.type = "changed";
    event.payload = payload;
    event.id = numbered_id(++published_);
    store_->publish(event);
  }
  void publish_many(int count) {
    for (int i = 0; i < count; ++i)
      publish("k" + std::to_string(i % 3), std::to_string(published_ + 1));
  }

  // One read of the available events.
  std::unique_ptr<Batch> read(std::size_t events_max = 1000, std::size_t bytes_max = 4 << 20) {
    return read_within(store_->abilities().arrival_max, events_max, bytes_max);
  }
  // One read that waits for events.
  std::unique_ptr<Batch> read_some(std::size_t events_max = 1000, std::size_t bytes_max = 4 << 20) {
    const bool at_once = store_->abilities().arrival_max == Duration{0};
    return read_within(at_once ? Duration{0} : seconds(90), events_max, bytes_max);
  }
  // One read that waits up to `wait_max` for a first event.
  std::unique_ptr<Batch> read_within(Duration wait_max, std::size_t events_max = 1000,
                                     std::size_t bytes_max = 4 << 20) {
    auto batch = std::make_unique<Batch>();
    const Status status =
        source_->read(*batch, Limits{events_max, bytes_max, wait_max}, std::stop_token{});
    EXPECT_TRUE(status) << (status ? "" : status.error().text);
    return batch;
  }
  // Reads until `count` events came, in batches of any size.
  std::vector<StoredEvent> read_all(std::size_t count, std::size_t events_max = 1000) {
    std::vector<StoredEvent> events;
    const auto end = std::chrono::steady_clock::now() + seconds(90);
    while (events.size() < count && std::chrono::steady_clock::now() < end) {
      const auto batch = read_within(milliseconds(100), events_max);
      for (const Event& event : batch->events()) events.emplace_back(event);
      if (!batch->empty()) batches_.push_back(std::move(*batch));
    }
    EXPECT_EQ(events.size(), count);
    return events;
  }
  void settle(const Batch& batch) {
    const std::vector<Settled> fates(batch.size(), Settled::delivered);
    ASSERT_TRUE(source_->settle(batch, fates));
  }

  std::unique_ptr<SourceUnderTest> store_;
  std::unique_ptr<Source> source_;
  std::vector<Batch> batches_;  // read by read_all()
  std::uint64_t published_ = 0;
};

TEST_P(SourceSuite, AnEmptyStoreGivesAnEmptyBatchAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(read()->empty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(60));
}

TEST_P(SourceSuite, GivesEveryEventInTheOrderOfItsKey) {
  publish_many(50);
  std::map<std::string, int> last;
  for (const StoredEvent& event : read_all(50)) {
    int& before = last[event.aggregate_id];
    EXPECT_LT(before, std::stoi(event.payload));
    before = std::stoi(event.payload);
  }
}

TEST_P(SourceSuite, PositionsGrowAlongAKey) {
  publish_many(30);
  std::map<std::string, std::int64_t> last;
  for (const StoredEvent& event : read_all(30)) {
    EXPECT_GT(event.position, last[event.aggregate_id]);
    last[event.aggregate_id] = event.position;
  }
}

TEST_P(SourceSuite, WhatIsReadIsNotReadAgainInTheSameSession) {
  publish_many(10);
  read_all(10);
  EXPECT_TRUE(read()->empty());
}

TEST_P(SourceSuite, WhatIsNotSettledIsReadAgainAfterOpen) {
  publish_many(10);
  read_all(10);
  ASSERT_TRUE(source_->open());
  EXPECT_EQ(read_all(10).front().payload, "1");
}

TEST_P(SourceSuite, WhatIsNotSettledIsReadAgainByTheNextProcess) {
  publish_many(10);
  read_all(10);
  reopen();
  EXPECT_EQ(read_all(10).size(), 10U);
}

TEST_P(SourceSuite, WhatIsSettledAndFlushedIsNotReadAgain) {
  publish_many(10);
  const auto first = read_some(4);
  ASSERT_FALSE(first->empty());
  const auto second = read_some(1000);
  settle(*first);
  ASSERT_TRUE(source_->flush());
  reopen();
  const auto rest = read_all(10 - first->size());
  EXPECT_EQ(rest.front().id, second->events().front().id);
}

TEST_P(SourceSuite, EverythingSettledLeavesNothing) {
  publish_many(25);
  read_all(25, 7);
  for (const Batch& batch : batches_) settle(batch);
  ASSERT_TRUE(source_->flush());
  reopen();
  EXPECT_TRUE(read()->empty());
  publish("later", "later");
  EXPECT_EQ(read_all(1).front().payload, "later");
}

TEST_P(SourceSuite, ParkedCountsAsSettled) {
  publish_many(3);
  read_all(3);
  for (const Batch& batch : batches_)
    ASSERT_TRUE(source_->settle(batch, std::vector<Settled>(batch.size(), Settled::parked)));
  ASSERT_TRUE(source_->flush());
  reopen();
  EXPECT_TRUE(read()->empty());
}

TEST_P(SourceSuite, FlushWithNothingSettledIsHarmless) {
  publish_many(2);
  ASSERT_TRUE(source_->flush());
  read_all(2);
  ASSERT_TRUE(source_->flush());
  reopen();
  EXPECT_EQ(read_all(2).size(), 2U);
}

TEST_P(SourceSuite, ABatchIsBoundedByCount) {
  publish_many(20);
  EXPECT_LE(read_some(6)->size(), 6U);
}

TEST_P(SourceSuite, ABatchIsBoundedByBytes) {
  for (int i = 0; i < 10; ++i) publish("k", std::string(1000, 'x'));
  const auto batch = read_some(1000, 3500);
  EXPECT_GE(batch->size(), 1U);
  EXPECT_LE(batch->size(), 3U);
  EXPECT_EQ(read_all(10 - batch->size()).size(), 10 - batch->size());
}

TEST_P(SourceSuite, AnEventLargerThanTheLimitIsReadAlone) {
  publish("k", "small");
  publish("k", std::string(100'000, 'x'));
  publish("k", "small");
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 100 && sizes.size() < 3; ++i) {
    const auto batch = read_within(milliseconds(100), 1000, 2000);
    if (batch->empty()) continue;
    EXPECT_EQ(batch->size(), 1U);
    sizes.push_back(batch->events()[0].payload.size());
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{5, 100'000, 5}));
}

TEST_P(SourceSuite, ManyBatchesGiveEverythingOnce) {
  publish_many(500);
  std::set<EventId> ids;
  for (const StoredEvent& event : read_all(500, 13)) ids.insert(event.id);
  EXPECT_EQ(ids.size(), 500U);
  EXPECT_TRUE(read()->empty());
}

TEST_P(SourceSuite, AWaitEndsWhenAnEventArrives) {
  EXPECT_TRUE(read()->empty());
  std::jthread writer([this] {
    std::this_thread::sleep_for(milliseconds(30));
    publish("k", "arrived");
  });
  const auto start = std::chrono::steady_clock::now();
  const auto batch = read_within(seconds(90), 10);
  ASSERT_EQ(batch->size(), 1U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(60));
}

TEST_P(SourceSuite, AWaitEndsWhenAskedToStop) {
  std::stop_source stop;
  std::jthread stopper([&stop] {
    std::this_thread::sleep_for(milliseconds(30));
    stop.request_stop();
  });
  const auto start = std::chrono::steady_clock::now();
  Batch batch;
  ASSERT_TRUE(source_->read(batch, Limits{10, 1 << 20, seconds(90)}, stop.get_token()));
  EXPECT_TRUE(batch.empty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(60));
}

TEST_P(SourceSuite, EveryFieldComesByteForByte) {
  const std::string payload("a\0b\xff\xfe\n", 6);
  const std::vector<Header> headers = {{"trace", "00-ab"}, {"utf8", "gr\xc3\xbc\xc3\x9f"}};
  NewEvent event;
  event.aggregate_type =
      "b\xc3\xbc"
      "cher";
  event.aggregate_id = std::string_view("k'\"; --");
  event.type = "created";
  event.payload = payload;
  event.content_type = "application/octet-stream";
  event.headers = headers;
  event.topic = "own.topic";
  event.aggregate_version = 7'000'000'000;
  event.id = numbered_id(77);
  store_->publish(event);

  const auto events = read_all(1);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].id, *event.id);
  EXPECT_EQ(events[0].aggregate_type, event.aggregate_type);
  EXPECT_EQ(events[0].aggregate_id, event.aggregate_id);
  EXPECT_EQ(events[0].type, event.type);
  EXPECT_EQ(events[0].payload, payload);
  EXPECT_EQ(events[0].content_type, event.content_type);
  EXPECT_EQ(events[0].topic, event.topic);
  EXPECT_EQ(events[0].aggregate_version, event.aggregate_version);
  EXPECT_NE(events[0].key_hash, 0U);
  const auto decoded = decode_headers(events[0].headers);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, headers);
}

TEST_P(SourceSuite, AnEventWithoutKeyHasNone) {
  if (!store_->abilities().keeps_empty_keys) GTEST_SKIP() << "this store wants a key";
  publish("", "no key");
  const auto events = read_all(1);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].aggregate_id, "");
  EXPECT_EQ(events[0].key_hash, 0U);
}

TEST_P(SourceSuite, ALongPayloadComesWhole) {
  std::string payload(900'000, '\0');
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i * 31 % 251);
  publish("k", payload);
  EXPECT_TRUE(read_all(1).front().payload == payload);
}

TEST_P(SourceSuite, ARestartOfTheServerLosesNothing) {
  if (!store_->abilities().can_restart) GTEST_SKIP() << "there is no server to restart";
  publish_many(5);
  read_all(5);
  store_->restart_server();
  reopen();
  EXPECT_EQ(read_all(5).size(), 5U);
}

}  // namespace dovetail::conformance
