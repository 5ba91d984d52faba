// What a relay does when an operator pauses or drains it.
#include "core/testing/test_relay.h"

namespace dovetail {
namespace {

// A lease with an order that the test gives.
class OrderedLease final : public Lease {
 public:
  OrderedLease(MemoryReader& reader, Clock& clock) : inner_(reader, "relay", 1h, clock) {}

  Status acquire() override {
    if (stops(order)) return fail(Errc::unavailable, "paused by ann (the broker moves)");
    DOVETAIL_TRY(inner_.acquire());
    is_held = true;
    return {};
  }
  Status renew() override { return inner_.renew(); }
  Status release() override {
    is_held = false;
    return inner_.release();
  }
  Status release_drained() override {
    if (order == Hold::draining) order = Hold::drained;
    return release();
  }
  Hold hold() const override {
    const Hold now = order;
    if (now != Hold::none) is_heard = true;
    return now;
  }
  TimePoint deadline() const override { return inner_.deadline(); }
  TimePoint renew_at() const override { return inner_.renew_at(); }
  const MemoryLease& inner() const { return inner_; }

  std::atomic<Hold> order{Hold::none};
  std::atomic<bool> is_held{false};
  mutable std::atomic<bool> is_heard{false};  // the relay has seen an order

 private:
  MemoryLease inner_;
};

class RelayHoldTest : public RelayTest {
 protected:
  RelayHoldTest() {
    options_.drain_timeout = 1h;
    options_.idle_wait = 5ms;
  }

  // Stops the relay at the end of its scope, while the sink is still there.
  struct Run {
    explicit Run(std::jthread& relay) : thread(relay) {}
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    ~Run() { thread = {}; }
    std::jthread& thread;
  };

  [[nodiscard]] Run begin(Sink& sink) {
    held_relay_.emplace(RelayPorts{.source = from_,
                                   .sink = sink,
                                   .parking = parking_at_,
                                   .lease = ordered_,
                                   .clock = clock_,
                                   .metrics = metrics_,
                                   .notify =
                                       [this](const RelayNotice& notice) {
                                         const std::lock_guard lock(notices_mutex_);
                                         notices_[notice.kind]++;
                                       },
                                   .report =
                                       [this](const RelayState& state) {
                                         if (state.kind == RelayState::Kind::held)
                                           said_held_ = true;
                                       }},
                        options_);
    thread_ = std::jthread([this](std::stop_token stop) { result_ = held_relay_->run(stop); });
    return Run(thread_);
  }

  OrderedLease ordered_{reader_, clock_};
  MemoryParking parking_at_{reader_, &ordered_.inner()};
  MemorySource from_{log_, reader_, &ordered_.inner()};
  std::atomic<bool> said_held_{false};
  std::optional<Relay> held_relay_;
};

// Confirms nothing until it is let go.
class SlowSink final : public Sink {
 public:
  Status open() override {
    submitted_.clear();
    return {};
  }
  Status submit(Events events) override {
    submitted_.push_back(events.size());
    sent += static_cast<int>(events.size());
    return {};
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration) override {
    if (submitted_.empty() || !confirms) {
      std::this_thread::sleep_for(1ms);
      return false;
    }
    submitted_.pop_front();
    for (Outcome& outcome : outcomes) outcome = Outcome{Fate::confirmed};
    return true;
  }
  bool keeps_order_on_failure() const override { return true; }

  std::atomic<int> sent{0};
  std::atomic<bool> confirms{false};

 private:
  std::deque<std::size_t> submitted_;
};

TEST_F(RelayHoldTest, APausedRelayFinishesWhatIsInFlightAndLetsGoOfItsLease) {
  publish("a", 3);
  SlowSink sink;
  const Run run = begin(sink);
  ASSERT_TRUE(eventually([&] { return sink.sent == 3; }));
  ordered_.order = Hold::paused;
  ASSERT_TRUE(eventually([&] { return ordered_.is_heard.load(); }));
  publish("a", 2);
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(ordered_.is_held) << "three events are in flight";
  sink.confirms = true;
  ASSERT_TRUE(eventually([&] { return !ordered_.is_held && said_held_; }));
  EXPECT_EQ(reader_.settled(), 3) << "what was in flight is recorded";
  EXPECT_EQ(sink.sent, 3) << "and nothing new goes out";
  ordered_.order = Hold::none;
  EXPECT_TRUE(eventually([&] { return reader_.settled() == 5; }));
  EXPECT_EQ(sink.sent, 5) << "nothing is sent twice";
}

TEST_F(RelayHoldTest, ARelayThatIsPausedBeforeItStartsSendsNothing) {
  ordered_.order = Hold::drained;
  publish("a", 3);
  SlowSink sink;
  const Run run = begin(sink);
  ASSERT_TRUE(eventually([&] { return said_held_ && notices_of(RelayNotice::Kind::held) == 1; }));
  EXPECT_EQ(sink.sent, 0);
  EXPECT_EQ(notices_of(RelayNotice::Kind::session_lost), 0) << "an order is no failure";
}

TEST_F(RelayHoldTest, ADrainingRelayDeliversWhatWaitsForItsNextTryAndReadsNothingNew) {
  options_.key_retry = {Duration(20ms), Duration(20ms)};
  MemorySink sink;
  std::atomic<bool> works{false};
  std::atomic<int> tries{0};
  sink.decide_by([&](const Event& event) {
    if (event.aggregate_id != "sick" || works) return Outcome{Fate::confirmed};
    ++tries;
    return Outcome{Fate::failed, 0, "not now"};
  });
  options_.attempts_max = 1'000'000;
  publish("sick", 2);
  const Run run = begin(sink);
  // Other keys pass, so the sick one waits in parking.
  ASSERT_TRUE(eventually([&] {
    publish("well");
    return reader_.parked().size() == 2;
  }));
  ASSERT_TRUE(eventually([&] { return reader_.settled() == published_; }));
  ordered_.order = Hold::draining;
  const int before = tries;
  ASSERT_TRUE(eventually([&] { return tries > before + 2; })) << "what failed is tried again";
  EXPECT_EQ(ordered_.order, Hold::draining) << "two events wait for their next try";
  const std::size_t received = sink.received_count();
  ASSERT_TRUE(eventually([&] { return ordered_.is_heard.load(); }));
  publish("new", 5);
  works = true;
  ASSERT_TRUE(eventually([&] { return ordered_.order == Hold::drained && said_held_; }));
  EXPECT_FALSE(ordered_.is_held);
  EXPECT_TRUE(reader_.parked().empty());
  EXPECT_EQ(sink.received_count(), received + 2) << "the two that waited, and nothing new";
}

TEST_F(RelayHoldTest, AParkedEventNeedsADecisionAndDoesNotKeepARelayFromBeingDrained) {
  MemorySink sink;
  sink.decide_by([](const Event& event) {
    return event.aggregate_id == "bad" ? Outcome{Fate::rejected, 0, "no such product"}
                                       : Outcome{Fate::confirmed};
  });
  publish("bad", 2);
  publish("good");
  const Run run = begin(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 3; }));
  ordered_.order = Hold::draining;
  ASSERT_TRUE(eventually([&] { return ordered_.order == Hold::drained; }));
  EXPECT_EQ(reader_.parked().size(), 2U);
}

}  // namespace
}  // namespace dovetail
