// What the relay does when events fail: a sick key, a sick sink, a halt, a stop in the middle.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "core/testing/test_relay.h"

namespace dovetail {
namespace {

// Fails by key, as the test says.
class MoodySink final : public Sink {
 public:
  explicit MoodySink(bool keeps_order = true)
      : inner_({.dedup = false, .keeps_order_on_failure = keeps_order}) {
    inner_.decide_by([this](const Event& event) {
      const std::lock_guard lock(mutex_);
      const std::string key(event.aggregate_id);
      if (all_ == Fate::confirmed && !bad_.contains(key)) return Outcome{Fate::confirmed};
      ++tries_[key];
      return Outcome{all_ == Fate::confirmed ? Fate::failed : all_, 0, "moody"};
    });
  }
  Status open() override { return inner_.open(); }
  Status submit(Events events) override {
    most_ = std::max<std::size_t>(most_, events.size());
    return inner_.submit(events);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    return inner_.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return inner_.keeps_order_on_failure(); }

  void all(Fate fate) {
    const std::lock_guard lock(mutex_);
    all_ = fate;
  }
  void bad(std::set<std::string> keys) {
    const std::lock_guard lock(mutex_);
    bad_ = std::move(keys);
  }
  int tries() {
    const std::lock_guard lock(mutex_);
    int all = 0;
    for (const auto& [key, tries] : tries_) all += tries;
    return all;
  }
  int tries(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return tries_[key];
  }
  std::size_t keys_tried() {
    const std::lock_guard lock(mutex_);
    return tries_.size();
  }
  std::size_t received() const { return inner_.received_count(); }
  std::size_t distinct() const {
    std::set<EventId> ids;
    for (const StoredEvent& one : inner_.received()) ids.insert(one.id);
    return ids.size();
  }
  std::vector<StoredEvent> events() const { return inner_.received(); }
  std::size_t take_most() { return most_.exchange(0); }

 private:
  MemorySink inner_;
  std::mutex mutex_;
  Fate all_ = Fate::confirmed;
  std::set<std::string> bad_;
  std::map<std::string, int> tries_;
  std::atomic<std::size_t> most_{0};
};

class RelayFailureTest : public RelayTest {
 protected:
  RelayFailureTest() {
    options_.replay_poll = Duration(2ms);
    options_.aside_after = Duration(5ms);
  }
  std::size_t parked(ParkState state) {
    std::size_t count = 0;
    for (const ParkedEvent& one : reader_.parked()) count += one.state == state ? 1 : 0;
    return count;
  }
};

TEST_F(RelayFailureTest, AReceiverThatFailsForEverybodyParksNothingAndAllIsDeliveredAfterwards) {
  for (const Fate fate : {Fate::failed, Fate::busy}) {
    for (const bool keeps_order : {true, false}) {
      MoodySink sink(keeps_order);
      version_.clear();
      options_.attempts_max = 2;
      const int before = published_;
      sink.all(fate);
      for (int i = 0; i < 200; ++i) publish("k" + std::to_string(i % 20));
      start(sink);
      ASSERT_TRUE(eventually([&] { return notices_of(RelayNotice::Kind::sink_sick) > 0; }));
      sink.take_most();
      const int tries = sink.tries();
      ASSERT_TRUE(eventually([&] { return sink.tries() > tries + 100; }));
      EXPECT_LE(sink.take_most(), 3U) << "only probes are sent";
      EXPECT_GE(sink.keys_tried(), 10U) << "not the same key each time";
      EXPECT_TRUE(reader_.parked().empty()) << "nothing is moved in an outage";
      sink.all(Fate::confirmed);
      ASSERT_TRUE(eventually([&] { return sink.received() == 200; }));
      ASSERT_TRUE(eventually([&] { return reader_.settled() == before + 200; }));
      stop();
      EXPECT_TRUE(reader_.parked().empty());
      EXPECT_EQ(std::exchange(notices_[RelayNotice::Kind::parked], 0), 0);
      notices_.clear();
      expect_ordered(sink.events());
    }
  }
  stop();
}

TEST_F(RelayFailureTest, AnOutageOfAFewKeysParksNothingEither) {
  MoodySink sink;
  options_.attempts_max = 1;
  sink.all(Fate::failed);
  publish("a", 3);
  publish("b", 3);
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.tries("a") > 20 && sink.tries("b") > 20; }));
  sink.all(Fate::confirmed);
  ASSERT_TRUE(eventually([&] { return sink.received() == 6; }));
  stop();
  EXPECT_EQ(notices_[RelayNotice::Kind::parked], 0);
  expect_ordered(sink.events());
}

TEST_F(RelayFailureTest, APoisonKeyIsParkedAloneAfterItsAttemptsWhileOthersPass) {
  MoodySink sink;
  options_.attempts_max = 4;
  sink.bad({"bad"});
  publish("bad", 3);
  start(sink);
  std::size_t good = 0;
  ASSERT_TRUE(eventually([&] {
    publish("good" + std::to_string(good++ % 50));
    return parked(ParkState::parked) == 1;
  }));
  stop();
  EXPECT_GE(sink.tries("bad"), 5);
  ASSERT_EQ(reader_.parked().size(), 3U) << "and what stands behind it on its key";
  EXPECT_EQ(reader_.parked()[0].attempts, 4U);
  EXPECT_EQ(reader_.parked()[0].reason, "moody");
  EXPECT_EQ(notices_[RelayNotice::Kind::parked], 1);
}

TEST_F(RelayFailureTest, AttemptsOutliveTheRelay) {
  MoodySink sink;
  options_.attempts_max = 6;
  options_.key_retry = {Duration(20ms), Duration(20ms)};
  sink.bad({"bad"});
  publish("bad");
  int lives = 0;
  while (parked(ParkState::parked) == 0 && ++lives < 100) {
    start(sink);
    const int tries = sink.tries("bad");
    ASSERT_TRUE(eventually([&] {
      publish("good" + std::to_string(published_ % 50));
      return sink.tries("bad") >= tries + 3 || parked(ParkState::parked) == 1;
    }));
    stop();
  }
  EXPECT_GE(lives, 2);
  EXPECT_LT(lives, 20);
  stop();
}

TEST_F(RelayFailureTest, OneEventInRetryDoesNotWithholdTheRecordOfOthers) {
  MoodySink sink;
  options_.key_retry = {Duration(1h), Duration(1h)};
  options_.connect_retry.cap = Duration(1h);
  sink.bad({"bad"});
  publish("bad", 2);
  for (int i = 0; i < 98; ++i) publish("good" + std::to_string(i % 10));
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 100; }));
  EXPECT_EQ(parked(ParkState::waiting), 2U);
  EXPECT_EQ(reader_.parked()[0].reason, "moody");
  EXPECT_GT(reader_.parked()[0].retry_at, clock_.wall() + 10min) << "its pause goes on there";
  stop();
}

TEST_F(RelayFailureTest, AStopLeavesNothingToBeSentAgainThatWasConfirmed) {
  for (const bool keeps_order : {true, false}) {
    MoodySink sink(keeps_order);
    version_.clear();
    options_.aside_after = Duration(1h);
    options_.key_retry = {Duration(1h), Duration(1h)};
    options_.connect_retry.cap = Duration(1h);
    options_.batch_events_max = 10;
    sink.bad({"bad"});
    const int before = published_;
    publish("good", 5);
    publish("bad", 2);
    for (int i = 0; i < 92; ++i) publish("good" + std::to_string(i % 10));
    publish("bad", 1);
    start(sink);
    ASSERT_TRUE(eventually([&] { return sink.received() == 97; }));
    EXPECT_TRUE(reader_.parked().empty());
    stop();
    EXPECT_EQ(reader_.settled(), before + 100);
    EXPECT_EQ(parked(ParkState::waiting), 3U);
    sink.bad({});
    for (const ParkedEvent& one : reader_.parked()) {
      EXPECT_TRUE(one.retry_at > clock_.wall() + 10min || one.reason != "moody");
    }
    options_.key_retry = {Duration(1ms), Duration(1ms)};
    reader_.hurry();
    start(sink);
    ASSERT_TRUE(eventually([&] { return sink.received() == 100; }));
    stop();
    EXPECT_EQ(sink.distinct(), 100U) << "nothing came twice";
    expect_ordered(sink.events());
  }
  stop();
}

TEST_F(RelayFailureTest, AStopLeavesNothingToBeSentAgainThatParkingDelivered) {
  MemorySink sink({.dedup = false});
  std::atomic<bool> is_healed = false;
  std::atomic<bool> refuses = true;
  std::atomic<int> delivered = 0;
  sink.decide_by([&](const Event& event) {
    if (event.aggregate_id == "held" && !is_healed) return Outcome{Fate::failed, 0, "not now"};
    if (event.aggregate_id == "refused" && refuses) return Outcome{Fate::rejected, 0, "never"};
    if (event.aggregate_id == "refused") ++delivered;
    return Outcome{Fate::confirmed};
  });
  options_.aside_after = Duration(1h);
  options_.key_retry = {Duration(1h), Duration(1h)};
  options_.connect_retry.cap = Duration(1h);
  options_.batch_events_max = 1;
  publish("held");
  publish("refused");
  start(sink);
  ASSERT_TRUE(eventually([&] { return parked(ParkState::parked) == 1; }));
  refuses = false;
  ASSERT_TRUE(reader_.replay(numbered_id(2), clock_.wall()));
  ASSERT_TRUE(eventually([&] { return reader_.parked().empty(); }));
  stop();
  EXPECT_EQ(reader_.settled(), 2U);
  is_healed = true;
  reader_.hurry();
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 2; }));
  stop();
  EXPECT_EQ(delivered, 1);
}

TEST_F(RelayFailureTest, AStopDuringAnOutageParksOnlyWhatPrecedesConfirmedEvents) {
  MoodySink sink;
  options_.batch_events_max = 10;
  options_.aside_after = Duration(1h);
  for (int i = 0; i < 15; ++i) publish("k" + std::to_string(i));
  sink.bad({"k3"});
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.received() == 14; }));
  sink.all(Fate::failed);
  for (int i = 20; i < 100; ++i) publish("k" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return notices_of(RelayNotice::Kind::sink_sick) > 0; }));
  ASSERT_TRUE(eventually([&] { return metrics_.window_events >= 80; }));
  stop();
  EXPECT_LE(reader_.parked().size(), 11U);
  EXPECT_GE(reader_.parked().size(), 1U);
  EXPECT_EQ(parked(ParkState::parked), 0U);
  sink.all(Fate::confirmed);
  sink.bad({});
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.distinct() == 95; }));
  stop();
  EXPECT_EQ(sink.received(), 95U) << "nothing came twice";
}

TEST_F(RelayFailureTest, PoisonKeysThatFillTheWindowMakeRoomForOthers) {
  MoodySink sink;
  options_.window_events_max = 8;
  options_.batch_events_max = 4;
  std::set<std::string> bad;
  for (int i = 0; i < 30; ++i) {
    bad.insert("bad" + std::to_string(i));
    publish("bad" + std::to_string(i));
  }
  sink.bad(bad);
  publish("good", 20);
  start(sink);
  ASSERT_TRUE(eventually([&] { return sink.received() == 20; }));
  stop();
}

TEST_F(RelayFailureTest, MoreParkedKeysThanAreKeptInMemoryHoldUpNoOther) {
  MemorySink sink;
  std::atomic<bool> mended = false;
  sink.decide_by([&](const Event& event) {
    const bool refused = event.aggregate_id.starts_with("bad") && !mended;
    return refused ? Outcome{Fate::rejected, 0, "refused"} : Outcome{Fate::confirmed};
  });
  options_.blocked_keys_max = 10;
  options_.window_events_max = 40;
  options_.batch_events_max = 10;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 50; ++i) {
      publish("bad" + std::to_string(i));
      publish("good" + std::to_string(i));
    }
  }
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 400; }));
  EXPECT_EQ(sink.received_count(), 200U);
  EXPECT_EQ(reader_.parked().size(), 200U);
  EXPECT_EQ(parked(ParkState::parked), 50U) << "and behind each of them three that wait";
  EXPECT_EQ(notices_of(RelayNotice::Kind::halted), 0);
  mended = true;
  for (const ParkedEvent& one : reader_.parked()) (void)reader_.replay(one.event.id, clock_.wall());
  ASSERT_TRUE(eventually([&] { return sink.received_count() == 400; }));
  stop();
  expect_ordered(sink.received());
}

// A store in an unexpected state for a while, for example after a column was renamed.
class RenamedSource final : public Source {
 public:
  explicit RenamedSource(Source& inner) : inner_(inner) {}
  Status open() override { return inner_.open(); }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    if (code_ == Errc::unavailable || in_flush_) return inner_.read(out, limits, stop);
    ++refused_;
    return fail(code_, "column \"payload\" does not exist; check the table");
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return inner_.settle(batch, fates);
  }
  Status flush() override {
    if (code_ == Errc::unavailable || !in_flush_) return inner_.flush();
    ++refused_;
    return fail(code_, "column \"settled\" does not exist; check the table");
  }

  bool in_flush_ = false;
  std::atomic<Errc> code_ = Errc::unavailable;  // unavailable means: it works
  std::atomic<int> refused_ = 0;

 private:
  Source& inner_;
};

TEST_F(RelayFailureTest, AHaltHealsByItselfWhenItsCauseGoesAway) {
  options_.progress_interval = Duration(1ms);
  for (const int round : {0, 1, 2, 3}) {
    const Errc code = round % 2 == 0 ? Errc::corrupt : Errc::rejected;
    NoLease lease;
    MemorySource inner(log_, reader_);
    RenamedSource source(inner);
    source.in_flush_ = round >= 2;
    MemoryParking parking(reader_);
    MemorySink sink;
    std::vector<RelayState> states;
    std::map<RelayNotice::Kind, int> notices;
    RelayPorts ports{source, sink, parking, lease, clock_, metrics_};
    ports.report = [&](const RelayState& state) { states.push_back(state); };
    ports.notify = [&](const RelayNotice& notice) { ++notices[notice.kind]; };
    Relay relay(ports, options_);
    Status ended;
    std::jthread thread([&](std::stop_token stop) { ended = relay.run(stop); });
    publish("a", 3);
    ASSERT_TRUE(eventually([&] { return sink.received_count() == 3; }));
    ASSERT_TRUE(eventually([&] { return reader_.settled() == published_; }));
    source.code_ = code;
    publish("a", 1);
    ASSERT_TRUE(eventually([&] { return source.refused_ > 10; }));
    source.code_ = Errc::unavailable;
    publish("a", 2);
    ASSERT_TRUE(eventually([&] { return sink.received_count() == 6; }));
    ASSERT_TRUE(eventually([&] { return reader_.settled() == published_; }));
    thread.request_stop();
    thread.join();
    EXPECT_TRUE(ended);
    EXPECT_EQ(notices[RelayNotice::Kind::halted], 1) << "once, not at each try";
    ASSERT_EQ(states.size(), 3U);
    EXPECT_EQ(states[1].kind, RelayState::Kind::halted);
    EXPECT_NE(states[1].last_error.find("does not exist"), std::string::npos);
    EXPECT_GT(states[1].next_try, Duration{0});
    EXPECT_EQ(states[2].kind, RelayState::Kind::delivering);
  }
}

TEST_F(RelayFailureTest, ARelayThatIsAStepOfAScriptGivesUpOnAHaltAndOnASinkThatNeverConfirms) {
  options_.gives_up = true;
  MoodySink sink;
  sink.all(Fate::failed);
  publish("a", 2);
  start(sink);
  thread_.join();
  ASSERT_FALSE(result_);
  EXPECT_NE(result_.error().text.find("moody"), std::string::npos);
  EXPECT_TRUE(reader_.parked().empty());

  sink.all(Fate::confirmed);
  MemoryLease lease(reader_, "script", 10s, clock_);
  MemorySource inner(log_, reader_, &lease);
  RenamedSource source(inner);
  source.code_ = Errc::corrupt;
  MemoryParking parking(reader_, &lease);
  ASSERT_TRUE(lease_->release());
  Relay relay(RelayPorts{source, sink, parking, lease, clock_, metrics_}, options_);
  const Status ended = relay.run({});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::corrupt);
  stop();
}

TEST_F(RelayFailureTest, ADelayIsOfTheStoresClockHoweverWrongTheRelaysIs) {
  for (const Duration wrong : {Duration(-1h), Duration(1h)}) {
    class WrongClock final : public Clock {
     public:
      WrongClock(Clock& clock, Duration by) : clock_(clock), by_(by) {}
      TimePoint now() override { return clock_.now(); }
      WallTime wall() override { return clock_.wall() + by_; }
      void sleep(Duration duration, std::stop_token stop) override { clock_.sleep(duration, stop); }

     private:
      Clock& clock_;
      Duration by_;
    } relay_clock(clock_, wrong);
    MemoryLease lease(reader_, "relay", 10s, relay_clock);
    MemorySource source(log_, reader_, &lease);
    MemoryParking parking(reader_, &lease);
    MoodySink sink;
    sink.bad({"bad"});
    const std::int64_t before = reader_.settled();
    publish("bad");
    publish("good");
    Relay relay(RelayPorts{source, sink, parking, lease, relay_clock, metrics_}, options_);
    std::jthread thread([&](std::stop_token stop) { (void)relay.run(stop); });
    ASSERT_TRUE(eventually([&] {
      publish("good");
      return parked(ParkState::waiting) == 1 && sink.tries("bad") > 5;
    })) << "it is tried out of parking again and again";
    sink.bad({});
    ASSERT_TRUE(eventually([&] { return reader_.settled() == published_; }));
    ASSERT_TRUE(eventually([&] { return reader_.parked().empty(); }));
    EXPECT_GT(reader_.settled(), before);
  }
}

// Keeps several batches in flight; the test says for each key how often it fails.
class LateSink final : public Sink {
 public:
  explicit LateSink(std::function<bool(const Event&)> fails)
      : inner_({.dedup = false, .keeps_order_on_failure = true}) {
    inner_.decide_by([fails = std::move(fails)](const Event& event) {
      return fails(event) ? Outcome{Fate::failed, 0, "late"} : Outcome{Fate::confirmed};
    });
  }
  Status open() override {
    in_flight_ = 0;
    return inner_.open();
  }
  Status submit(Events events) override {
    ++in_flight_;
    return inner_.submit(events);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    if (in_flight_ < 4 && ++idle_ % 8 != 0) return false;
    const Result<bool> done = inner_.collect(outcomes, timeout);
    if (done && *done) --in_flight_;
    return done;
  }
  bool keeps_order_on_failure() const override { return true; }
  std::vector<StoredEvent> received() const { return inner_.received(); }

 private:
  MemorySink inner_;
  int in_flight_ = 0;
  int idle_ = 0;
};

// After a crash, parked events go out before the source returns the others again.
TEST_F(RelayFailureTest, WhatStandsInParkingHasNoGapBeforeItOnItsKey) {
  constexpr int kKeys = 6;
  constexpr int kEach = 1000;
  std::map<std::string, std::set<int>> safe;  // delivered or parked; by one thread
  const auto version_of = [](const Event& event) { return std::stoi(std::string(event.payload)); };
  unsigned tries = 0;
  LateSink sink([&](const Event& event) {
    if (++tries % 5 == 0) return true;
    safe[std::string(event.aggregate_id)].insert(version_of(event));
    return false;
  });
  int parks = 0;
  int gaps = 0;
  show_parked_ = [&](std::span<const ParkRequest> requests) {
    for (const ParkRequest& one : requests)
      safe[std::string(one.event->aggregate_id)].insert(version_of(*one.event));
    for (const ParkRequest& one : requests) {
      const std::set<int>& known = safe[std::string(one.event->aggregate_id)];
      const auto before = std::distance(known.begin(), known.find(version_of(*one.event)));
      gaps += before + 1 == version_of(*one.event) ? 0 : 1;
      ++parks;
    }
  };
  options_.batch_events_max = 6;
  options_.window_events_max = 60;
  options_.aside_after = Duration(0);
  options_.attempts_max = 1'000'000;
  for (int i = 0; i < kEach; ++i)
    for (int key = 0; key < kKeys; ++key) publish(std::to_string(key));
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == kKeys * kEach; }));
  stop();
  EXPECT_GT(parks, 100);
  EXPECT_EQ(gaps, 0) << "of " << parks << " that were parked";
  expect_ordered(sink.received());
}

}  // namespace
}  // namespace dovetail
