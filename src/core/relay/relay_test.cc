#include "core/relay/relay.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "core/testing/test_clock.h"
#include "core/testing/test_relay.h"

namespace dovetail {
namespace {

TEST_F(RelayTest, EverythingPublishedArrivesInOrder) {
  MemorySink sink;
  publish("a", 500);
  start(sink);
  for (int i = 0; i < 500; ++i) publish(std::to_string(i % 7));
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 1000; }));
  stop();
  EXPECT_TRUE(result_.has_value());
  EXPECT_EQ(reader_.settled(), 1000);
  EXPECT_EQ(metrics_.settled, 1000U);
  EXPECT_EQ(metrics_.duplicates, 0U);
  EXPECT_EQ(metrics_.leases_taken, 1U);
  EXPECT_EQ(metrics_.commit_to_confirm.count(), 1000U);
  EXPECT_EQ(metrics_.receive_to_confirm.count(), 1000U);
  expect_ordered(sink.received());
}

TEST_F(RelayTest, ARefusedEventParksItsKeyAndNoOther) {
  for (const bool keeps_order : {true, false}) {
    MemorySink sink({.dedup = true, .keeps_order_on_failure = keeps_order});
    std::atomic<bool> fixed = false;
    sink.decide_by([&](const Event& event) {
      const bool poison = event.aggregate_id == "bad" && event.payload == "3" && !fixed;
      return poison ? Outcome{Fate::rejected, 0, "no such product"} : Outcome{Fate::confirmed};
    });
    const int before = published_;
    version_.clear();
    for (int i = 0; i < 10; ++i) {
      publish("bad");
      publish("good");
    }
    start(sink);
    ASSERT_TRUE(eventually([&] { return reader_.settled() == published_; }));
    EXPECT_EQ(sink.received_count(), 12U) << "10 good ones and 2 before the poison";
    std::vector<ParkedEvent> parked = reader_.parked();
    ASSERT_EQ(parked.size(), 8U);
    EXPECT_EQ(parked[0].reason, "no such product");
    EXPECT_EQ(parked[0].state, ParkState::parked);

    publish("bad", 5);
    ASSERT_TRUE(eventually([&] { return reader_.parked().size() == 13; }));
    EXPECT_EQ(sink.received_count(), 12U);

    fixed = true;
    ASSERT_TRUE(reader_.replay(numbered_id(before + 5), clock_.wall()));
    ASSERT_TRUE(eventually([&] { return sink.received_count() == 25; }));
    publish("bad");
    ASSERT_TRUE(eventually([&] { return sink.received_count() == 26; }));
    EXPECT_EQ(metrics_.blocked_keys, 0U);
    stop();
    expect_ordered(sink.received());
  }
  stop();
}

TEST_F(RelayTest, AnEventThatFailsIsTriedAgainBeforeItsKeyGoesOn) {
  for (const bool keeps_order : {true, false}) {
    MemorySink sink({.dedup = true, .keeps_order_on_failure = keeps_order});
    int failures = 0;
    sink.decide_by([&](const Event& event) {
      if (event.payload != "2" || failures >= 3) return Outcome{Fate::confirmed};
      ++failures;
      return Outcome{Fate::failed, 0, "not now"};
    });
    version_.clear();
    publish("a", 5);
    publish("b", 1);
    const std::size_t all = 6;
    start(sink);
    ASSERT_TRUE(eventually([&] { return sink.received_count() == all; }));
    stop();
    EXPECT_EQ(failures, 3);
    EXPECT_TRUE(reader_.parked().empty());
    expect_ordered(sink.received());
    failures = 0;
  }
  stop();
}

TEST_F(RelayTest, AnOutageParksNothingAndCountsNoAttempt) {
  MemorySink sink;
  sink.set_available(false);
  publish("a", 100);
  start(sink);
  ASSERT_TRUE(eventually([&] { return metrics_.sink_errors > 20; }));
  EXPECT_EQ(reader_.settled(), 0);
  const auto in_state = [&](RelayState::Kind kind) -> std::uint64_t {
    return metrics_.lanes_in_state[static_cast<std::size_t>(kind)];
  };
  EXPECT_EQ(metrics_.sinks_lost, 1U);
  EXPECT_EQ(in_state(RelayState::Kind::backing_off), 1U);
  EXPECT_EQ(in_state(RelayState::Kind::delivering), 0U);
  sink.set_available(true);
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 100; }));
  ASSERT_TRUE(eventually([&] { return in_state(RelayState::Kind::delivering) == 1; }));
  EXPECT_EQ(metrics_.sinks_lost, 0U);
  EXPECT_EQ(in_state(RelayState::Kind::backing_off), 0U);
  stop();
  EXPECT_TRUE(reader_.parked().empty());
  EXPECT_EQ(metrics_.failed, 0U);
  EXPECT_EQ(notices_[RelayNotice::Kind::sink_lost], 1)
      << "one line for the outage, not one for each try";
  EXPECT_EQ(notices_[RelayNotice::Kind::sink_restored], 1);
}

// A sink that only accepts connections, like a database with a full disk.
class OpensAtLeast final : public Sink {
 public:
  Status open() override { return behind.open(); }
  Status submit(Events events) override {
    if (broken) return fail(Errc::unavailable, "no space left");
    return behind.submit(events);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    return behind.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return true; }
  bool blocks() const override { return false; }

  MemorySink behind{};
  std::atomic<bool> broken = true;
};

TEST_F(RelayTest, ASinkThatOnlyConnectsIsNotSaidToWorkAgain) {
  OpensAtLeast sink;
  publish("a", 100);
  start(sink);
  ASSERT_TRUE(eventually([&] { return metrics_.sink_errors > 20; }));
  sink.broken = false;
  ASSERT_TRUE(eventually([&] { return sink.behind.received_count() == 100; }));
  stop();
  EXPECT_EQ(notices_[RelayNotice::Kind::sink_lost], 1);
  EXPECT_EQ(notices_[RelayNotice::Kind::sink_restored], 1) << "not one for each try";
}

TEST_F(RelayTest, TheStateIsReportedWhenItChanges) {
  MemorySink sink;
  sink.set_available(false);
  publish("a", 10);
  start(sink);
  ASSERT_TRUE(eventually([&] { return metrics_.sink_errors > 20; }));
  sink.set_available(true);
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 10; }));
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 10; }));
  stop();
  ASSERT_EQ(states_.size(), 3U) << "one for each change, not one for each try";
  EXPECT_EQ(states_[0].kind, RelayState::Kind::delivering);
  EXPECT_EQ(states_[1].kind, RelayState::Kind::backing_off);
  EXPECT_FALSE(states_[1].last_error.empty());
  EXPECT_GT(states_[1].next_try, Duration{0});
  EXPECT_EQ(states_[2].kind, RelayState::Kind::delivering);
  EXPECT_TRUE(states_[2].last_error.empty());
}

TEST_F(RelayTest, ARelayThatWaitsSaysSoOnceAMinute) {
  // The hours pass while it sleeps.
  TestClock clock;
  MemoryReader reader(clock);
  MemoryLease lease(reader, "relay", lease_term_, clock);
  MemorySource source(log_, reader, &lease);
  MemoryParking parking(reader, &lease);
  MemorySink sink;
  sink.set_available(false);
  publish("a", 1);
  std::vector<std::pair<TimePoint, std::string>> reminders;
  std::stop_source stop;
  options_.connect_retry = {Duration(1s), Duration(5s)};
  Relay relay(RelayPorts{.source = source,
                         .sink = sink,
                         .parking = parking,
                         .lease = lease,
                         .clock = clock,
                         .metrics = metrics_,
                         .notify =
                             [&](const RelayNotice& notice) {
                               if (notice.kind != RelayNotice::Kind::reminder) return;
                               reminders.emplace_back(clock.now(), notice.text);
                               if (reminders.size() == 3) stop.request_stop();
                             }},
              options_);
  const TimePoint begin = clock.now();
  const Status ended = relay.run(stop.get_token());
  EXPECT_TRUE(ended) << ended.error().text;
  ASSERT_EQ(reminders.size(), 3U);
  for (std::size_t i = 0; i < reminders.size(); ++i) {
    const auto& [at, text] = reminders[i];
    const Duration since = at - (i == 0 ? begin : reminders[i - 1].first);
    EXPECT_GE(since, Duration(60s));
    EXPECT_LT(since, Duration(75s)) << "at the next try after a minute";
    EXPECT_TRUE(text.starts_with("backing off since ")) << text;
    EXPECT_NE(text.find("next try in "), std::string::npos) << text;
    EXPECT_FALSE(text.ends_with(": ")) << "it says why: " << text;
  }
}

TEST_F(RelayTest, ANackForEverDoesNotHoldUpOtherKeys) {
  MemorySink sink;
  std::atomic<bool> healed = false;
  sink.decide_by([&](const Event& event) {
    const bool stuck = event.aggregate_id == "stuck" && !healed;
    return stuck ? Outcome{Fate::again, 0, "queue full"} : Outcome{Fate::confirmed};
  });
  options_.window_events_max = 20;
  options_.batch_events_max = 5;
  options_.key_retry = {Duration(100ms), Duration(200ms)};
  publish("stuck", 30);
  publish("fine", 200);
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 200; }));
  for (const ParkedEvent& parked : reader_.parked()) {
    EXPECT_EQ(parked.state, ParkState::waiting) << "nothing needs an operator";
    EXPECT_EQ(parked.attempts, 0U);
  }
  healed = true;
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 230; }));
  stop();
  expect_ordered(sink.received());
}

// A sink that shows how many events of a key it got at a time, and confirms them one collect
// later.
class CountingSink final : public Sink {
 public:
  Status open() override { return {}; }
  Status submit(Events events) override {
    std::vector<std::string> keys;
    for (const Event* event : events) {
      keys.emplace_back(event->aggregate_id);
      int& now = in_flight_[keys.back()];
      most_ = std::max<int>(most_, ++now);
    }
    submitted_.push_back(std::move(keys));
    window_most_ = std::max(window_most_, submitted_.size());
    return {};
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration) override {
    if (submitted_.size() < 2 && ++patience_ % 3 != 0) return false;
    for (const std::string& key : submitted_.front()) --in_flight_[key];
    submitted_.pop_front();
    for (Outcome& outcome : outcomes) outcome.fate = Fate::confirmed;
    confirmed_ += outcomes.size();
    return true;
  }
  bool keeps_order_on_failure() const override { return false; }

  std::atomic<std::size_t> confirmed_ = 0;
  int most_ = 0;
  std::size_t window_most_ = 0;

 private:
  std::map<std::string, int> in_flight_;
  std::deque<std::vector<std::string>> submitted_;
  int patience_ = 0;
};

TEST_F(RelayTest, ASinkThatMayReorderUnderFailureGetsOneOfAKeyAtATime) {
  CountingSink sink;
  options_.batch_events_max = 10;
  for (int i = 0; i < 300; ++i) publish(std::to_string(i % 20));
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.confirmed_ == 300; }));
  stop();
  EXPECT_EQ(sink.most_, 1);
  EXPECT_GT(sink.window_most_, 1U) << "other keys fill the pipeline";
}

TEST_F(RelayTest, OrderGivenAwayByNameLetsManyOfAKeyBeInFlight) {
  CountingSink sink;
  options_.order_relaxed = true;
  options_.batch_events_max = 10;
  publish("a", 300);
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.confirmed_ == 300; }));
  stop();
  EXPECT_GE(sink.most_, 20);
}

// Later events overtake one that fails, and none is lost.
TEST_F(RelayTest, OrderGivenAwayLosesNothingWhenEventsFail) {
  MemorySink sink({.dedup = true, .keeps_order_on_failure = false});
  std::map<std::string, int> tries;
  sink.decide_by([&](const Event& event) {
    const int payload = std::stoi(std::string(event.payload));
    if (payload % 10 != 0 || ++tries[std::string(event.payload)] > 2) {
      return Outcome{Fate::confirmed};
    }
    return Outcome{Fate::failed, 0, "not now"};
  });
  options_.order_relaxed = true;
  options_.batch_events_max = 7;
  publish("a", 300);
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 300; }));
  stop();
  std::set<std::string> received;
  for (const StoredEvent& event : sink.received()) received.insert(event.payload);
  EXPECT_EQ(received.size(), 300U);
  EXPECT_TRUE(reader_.parked().empty());
}

TEST_F(RelayTest, WhatIsInMemoryIsBounded) {
  MemorySink sink;
  sink.set_available(false);
  options_.window_events_max = 50;
  options_.batch_events_max = 8;
  publish("a", 1000);
  start(sink);
  ASSERT_TRUE(eventually([&] { return metrics_.window_events == 50; }));
  ASSERT_TRUE(eventually([&] { return metrics_.sink_errors > 30; }));
  EXPECT_EQ(metrics_.read, 50U);
  sink.set_available(true);
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 1000; }));
  stop();
}

TEST_F(RelayTest, ProgressIsWrittenWhenTheWindowIsFullOfWhatItLacks) {
  MemorySink sink;
  options_.progress_interval = 1h;
  options_.window_events_max = 50;
  options_.batch_events_max = 5;
  publish("a", 49);
  start(sink);
  ASSERT_TRUE(eventually([&] { return metrics_.settled == 49; }));
  EXPECT_EQ(counted_->flushes, 0);
  publish("a", 151);
  ASSERT_TRUE(eventually([&] { return metrics_.settled == 200; }));
  EXPECT_GE(counted_->flushes, 3);  // the last 50 at most are not written
  EXPECT_LE(counted_->flushes, 8);
  stop();
  start(sink);  // from what was written at the end
  publish("b", 1);
  ASSERT_TRUE(eventually([&] { return metrics_.settled == 201; }));
  EXPECT_EQ(sink.received_count(), 201U);
  stop();
}

TEST_F(RelayTest, ProgressIsWrittenSoonWhenNothingMoreComes) {
  MemorySink sink;
  options_.progress_interval = 5ms;
  options_.idle_wait = options_.replay_poll = lease_term_ = 1h;
  publish("a", 1);
  start(sink);
  EXPECT_TRUE(eventually([&] { return counted_->flushes == 1; }))
      << "only the renewal of the lease would wake it";
  stop();
}

// A connection that goes silent: nothing fails, nothing is confirmed.
class SilentSink final : public Sink {
 public:
  Status open() override {
    ++opened_;
    inner_open_ = opened_ > 1;
    return inner_.open();
  }
  Status submit(Events events) override { return inner_open_ ? inner_.submit(events) : Status{}; }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    if (inner_open_) return inner_.collect(outcomes, timeout);
    std::this_thread::sleep_for(timeout);
    return false;
  }
  bool keeps_order_on_failure() const override { return true; }

  std::atomic<int> opened_ = 0;
  MemorySink inner_;

 private:
  bool inner_open_ = false;
};

TEST_F(RelayTest, ASilentConnectionIsReplaced) {
  SilentSink sink;
  options_.confirm_timeout = 50ms;
  publish("a", 10);
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.inner_.received_count() == 10; }));
  stop();
  EXPECT_EQ(metrics_.stalls, 1U);
  EXPECT_EQ(notices_[RelayNotice::Kind::stalled], 1);
}

TEST_F(RelayTest, StoppingSettlesWhatWasConfirmed) {
  CountingSink sink;
  publish("a", 1);
  publish("b", 1);
  start(sink);
  ASSERT_TRUE(eventually([&] { return metrics_.submitted > 0; }));
  stop();
  EXPECT_TRUE(result_.has_value());
  EXPECT_EQ(static_cast<std::size_t>(reader_.settled()), sink.confirmed_);
  EXPECT_EQ(notices_[RelayNotice::Kind::drained], 1);
}

TEST_F(RelayTest, ASecondRelayStandsByAndTakesOver) {
  MemorySink sink;
  publish("a", 10);
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 10; }));

  MemoryLease lease(reader_, "standby", 10s, clock_);
  MemorySource source(log_, reader_, &lease);
  MemoryParking parking(reader_, &lease);
  RelayMetrics metrics;
  std::atomic<int> standing_by = 0;
  std::atomic<int> started = 0;
  Relay second(RelayPorts{.source = source,
                          .sink = sink,
                          .parking = parking,
                          .lease = lease,
                          .clock = clock_,
                          .metrics = metrics,
                          .notify =
                              [&](const RelayNotice& notice) {
                                if (notice.kind == RelayNotice::Kind::standby) ++standing_by;
                                if (notice.kind == RelayNotice::Kind::started) ++started;
                              }},
               options_);
  std::jthread thread([&](std::stop_token token) { (void)second.run(token); });
  ASSERT_TRUE(eventually([&] { return standing_by == 1; }));
  publish("a", 10);
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 20; }));
  EXPECT_EQ(started, 0);
  EXPECT_EQ(metrics.read, 0U);

  stop();
  ASSERT_TRUE(eventually([&] { return started == 1; }));
  publish("a", 10);
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 30; }));
  thread.request_stop();
  thread.join();
  expect_ordered(sink.received());
}

// Ends when the test says so; the next acquisition does not end.
class EndingLease final : public Lease {
 public:
  Status acquire() override {
    deadline_ = TimePoint::max();
    return {};
  }
  Status renew() override { return {}; }
  Status release() override { return {}; }
  TimePoint deadline() const override { return deadline_; }
  TimePoint renew_at() const override { return TimePoint::max(); }

  void end() { deadline_ = TimePoint::min(); }
  bool has_ended() const { return deadline_ == TimePoint::min(); }

 private:
  TimePoint deadline_ = TimePoint::min();
};

// Does its work in collect(), like a mailbox or an inbox; the lease ends after the first
// submit().
class InterruptedSink final : public Sink {
 public:
  explicit InterruptedSink(EndingLease& lease) : lease_(lease) {}
  Status open() override { return sink.open(); }
  Status submit(Events events) override {
    const Status done = sink.submit(events);
    if (!std::exchange(was_interrupted_, true)) lease_.end();
    return done;
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    if (lease_.has_ended()) ++worked_without_lease;
    return sink.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return true; }

  MemorySink sink;
  std::atomic<int> worked_without_lease{0};

 private:
  EndingLease& lease_;
  bool was_interrupted_ = false;
};

TEST_F(RelayTest, ASinkDoesNoWorkForARelayWhoseLeaseRanOut) {
  EndingLease lease;
  InterruptedSink sink(lease);
  MemorySource source(log_, reader_, nullptr);
  MemoryParking parking(reader_, nullptr);
  publish("a", 3);
  Relay relay(RelayPorts{source, sink, parking, lease, clock_, metrics_}, options_);
  std::jthread thread([&](std::stop_token stop) { result_ = relay.run(stop); });
  EXPECT_TRUE(eventually([&] { return sink.sink.received_count() == 3; }));
  thread.request_stop();
  thread.join();
  EXPECT_EQ(sink.worked_without_lease, 0);
  EXPECT_EQ(metrics_.fenced, 1U);
}

TEST_F(RelayTest, TopicsAreRoutedByTemplate) {
  MemorySink sink;
  const TopicTemplate topics = *TopicTemplate::parse("{aggregate_type}.events");
  publish("a");
  lease_.emplace(reader_, "relay", 10s, clock_);
  source_.emplace(log_, reader_, &*lease_);
  parking_.emplace(reader_, &*lease_);
  relay_.emplace(RelayPorts{.source = *source_,
                            .sink = sink,
                            .parking = *parking_,
                            .lease = *lease_,
                            .clock = clock_,
                            .metrics = metrics_,
                            .topics = &topics},
                 options_);
  thread_ = std::jthread([this](std::stop_token token) { result_ = relay_->run(token); });
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 1; }));
  EXPECT_EQ(sink.received()[0].view().topic, "order.events");
  stop();
}

TEST_F(RelayTest, WhatTheFilterLeavesOutIsSkippedAndNeverDelivered) {
  options_.filter.aggregate_types = {"no such type"};
  MemorySink sink;
  publish("a", 500);
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 500; }));
  stop();
  EXPECT_EQ(sink.received_count(), 0U);
  EXPECT_EQ(metrics_.skipped, 500U);
  EXPECT_EQ(metrics_.confirmed, 0U);
}

// A key whose event is parked blocks the events that the relay carries; the others are not its
// business, and must not fill parking.
TEST_F(RelayTest, AnEventThatIsLeftOutDoesNotWaitBehindAParkedOne) {
  options_.filter.types = {"Changed"};
  MemorySink sink;
  sink.decide_by([](const Event&) { return Outcome{Fate::rejected, 0, "no such product"}; });
  const auto publish_other = [&] {
    NewEvent event;
    event.aggregate_type = "order";
    event.aggregate_id = "a";
    event.type = "Mailed";
    event.payload = "x";
    event.id = numbered_id(++published_);
    ASSERT_TRUE(log_.publish(event, clock_.wall()).has_value());
  };
  publish("a");
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 1; }));
  publish_other();
  publish("a");
  publish_other();
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 4; }));
  stop();
  EXPECT_EQ(reader_.parked().size(), 2U) << "one is parked, and one waits behind it";
  EXPECT_EQ(metrics_.skipped, 2U);
}

}  // namespace
}  // namespace dovetail
