#include "core/relay/origin_source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/relay/own_positions.h"
#include "core/testing/test_clock.h"
#include "core/testing/test_sinks.h"
#include "memory/reader.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;

// A broker's source that records its users.
class TestSource final : public Source, public OwnPositions {
 public:
  TestSource(std::vector<std::string>& seen, NumberedEvents& events)
      : seen_(seen), events_(events) {
    seen_.emplace_back("joined");
  }
  TestSource(const TestSource&) = delete;
  TestSource& operator=(const TestSource&) = delete;
  ~TestSource() override { seen_.emplace_back("left"); }
  void begin_after(std::int64_t position) override {
    if (position > 0) seen_.emplace_back("begins after " + std::to_string(position));
  }
  Status open() override { return {}; }
  Status read(Batch& out, const Limits&, std::stop_token) override {
    Event event = *events_.make("k", "payload");
    event.topic = "there";
    if (out.empty()) out.append(event);
    return {};
  }
  Status settle(const Batch&, std::span<const Settled>) override { return {}; }
  Status flush() override {
    seen_.emplace_back("told");
    return {};
  }
  Status keep_alive() override {
    seen_.emplace_back("tended");
    return {};
  }

 private:
  std::vector<std::string>& seen_;
  NumberedEvents& events_;
};

class TestHome final : public OriginStore {
 public:
  explicit TestHome(std::vector<std::string>& seen) : seen_(seen) {}
  Lease& lease() override { return lease_; }
  Parking& parking() override { return parking_; }
  Status open() override { return opens; }
  Result<std::int64_t> last_parked() override { return last; }
  void add(std::uint64_t settled, std::uint64_t parked, std::uint64_t) override {
    counted += settled;
    parked_count += parked;
  }
  Status write() override {
    seen_.emplace_back("counted");
    return writes;
  }

  Status opens{};
  Result<std::int64_t> last = 0;
  Status writes{};
  std::uint64_t counted = 0;
  std::uint64_t parked_count = 0;

 private:
  class Held final : public Lease {
   public:
    explicit Held(std::vector<std::string>& seen) : seen_(seen) {}
    Status acquire() override {
      seen_.emplace_back("acquired");
      return {};
    }
    Status renew() override { return {}; }
    Status release() override {
      seen_.emplace_back("released");
      return {};
    }
    TimePoint deadline() const override { return TimePoint::max(); }
    TimePoint renew_at() const override { return TimePoint::max(); }

   private:
    std::vector<std::string>& seen_;
  };

  std::vector<std::string>& seen_;
  Held lease_{seen_};
  MemoryReader reader_{};
  MemoryParking parking_{reader_};
};

class OriginSourceTest : public testing::Test {
 protected:
  static void at_once(const std::function<void()>& work) { work(); }
  static Status open(OriginSource& source) {
    DOVETAIL_TRY(source.open());
    const Result<bool> opened = source.opened(Duration{0});
    if (!opened) return fail(opened.error());
    EXPECT_TRUE(*opened);
    return {};
  }
  Origin origin() {
    return {"test", [this](Clock&, Duration) -> Result<std::unique_ptr<Source>> {
              return std::make_unique<TestSource>(seen_, events_);
            }};
  }
  Batch read(OriginSource& source) {
    Batch batch;
    EXPECT_TRUE(source.read(batch, {}, {}));
    return batch;
  }

  NumberedEvents events_;
  TestClock clock_;
  std::vector<std::string> seen_;
  TestHome home_{seen_};
  OriginSource source_{origin(), home_, clock_, at_once};
  OriginLease lease_{source_, home_.lease()};
};
using Seen = std::vector<std::string>;

TEST_F(OriginSourceTest, AProcessThatAsksForTheLaneOrGivesItUpHasLeftTheBrokerBefore) {
  ASSERT_TRUE(lease_.acquire());
  ASSERT_TRUE(open(source_));
  ASSERT_TRUE(lease_.acquire());
  EXPECT_EQ(seen_, (Seen{"acquired", "joined", "left", "acquired"}));
  seen_.clear();
  ASSERT_TRUE(open(source_));
  ASSERT_TRUE(lease_.release());
  EXPECT_EQ(seen_, (Seen{"joined", "left", "released"}));
}

TEST_F(OriginSourceTest, WhatComesStandsBehindWhatIsParkedWhateverTheClockSays) {
  home_.last = 41;
  ASSERT_TRUE(open(source_));
  EXPECT_EQ(seen_, (Seen{"joined", "begins after 41"}));
}

TEST_F(OriginSourceTest, ASessionThatTheHomeDoesNotTakeLeavesTheBroker) {
  home_.opens = fail(Errc::unavailable, "away");
  EXPECT_FALSE(open(source_));
  EXPECT_EQ(seen_, (Seen{"joined", "left"}));
  EXPECT_FALSE(source_.quiet_since());
}

TEST_F(OriginSourceTest, WhereWhatIsParkedIsNotKnownNothingIsRead) {
  home_.last = fail(Errc::unavailable, "away");
  EXPECT_FALSE(open(source_));
  EXPECT_EQ(seen_, (Seen{"joined", "left"}));
}

TEST_F(OriginSourceTest, TheBrokerIsToldBeforeItIsCounted) {
  ASSERT_TRUE(open(source_));
  const Batch batch = read(source_);
  ASSERT_TRUE(source_.settle(batch, std::vector<Settled>{Settled::parked}));
  EXPECT_EQ(home_.counted, 1U);
  EXPECT_EQ(home_.parked_count, 1U);
  seen_.clear();
  ASSERT_TRUE(source_.flush());
  EXPECT_EQ(seen_, (Seen{"told", "counted"}));
}

TEST_F(OriginSourceTest, CountsThatCannotBeWrittenStopNobodyButALaneThatIsLostDoes) {
  ASSERT_TRUE(open(source_));
  home_.writes = fail(Errc::unavailable, "away");
  EXPECT_TRUE(source_.flush());
  home_.writes = fail(Errc::stopped, "taken over");
  const Status flushed = source_.flush();
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, Errc::stopped);
}

TEST_F(OriginSourceTest, ABrokerThatDoesNotAnswerKeepsNobodyWaiting) {
  std::function<void()> later;
  OriginSource source{origin(), home_, clock_, [&](std::function<void()> work) { later = work; }};
  ASSERT_TRUE(source.open());
  EXPECT_FALSE(source.opened(1ms).value());
  EXPECT_FALSE(source.quiet_since());
  EXPECT_TRUE(source.flush()) << "a relay that is stopped meanwhile";
  later();
  EXPECT_TRUE(source.opened(1ms).value());
  EXPECT_EQ(read(source).size(), 1U);
  // If it is dropped meanwhile, it ends with the thread that opens it.
  ASSERT_TRUE(source.open());
  seen_.clear();
  source.drop();
  EXPECT_EQ(seen_, Seen{});
  later();
  later = nullptr;
  EXPECT_EQ(seen_, Seen{"left"});
}

TEST_F(OriginSourceTest, TheBrokersSourceIsTendedToo) {
  ASSERT_TRUE(open(source_));
  seen_.clear();
  ASSERT_TRUE(source_.keep_alive());
  EXPECT_EQ(seen_, (Seen{"tended"}));
}

TEST_F(OriginSourceTest, TopicsAreLeftOutWhereTheRelayNamesThem) {
  ASSERT_TRUE(open(source_));
  EXPECT_EQ(read(source_).events()[0].topic, "there");
  OriginSource naming{origin(), home_, clock_, at_once, false};
  ASSERT_TRUE(open(naming));
  EXPECT_EQ(read(naming).events()[0].topic, "");
}

TEST_F(OriginSourceTest, ItIsQuietSinceSomethingCameOrWasSettled) {
  EXPECT_FALSE(source_.quiet_since());
  ASSERT_TRUE(open(source_));
  EXPECT_EQ(source_.quiet_since(), clock_.now());
  clock_.advance(1s);
  EXPECT_EQ(source_.quiet_since(), clock_.now() - 1s);
  const Batch batch = read(source_);
  EXPECT_EQ(source_.quiet_since(), clock_.now());
  clock_.advance(1s);
  ASSERT_TRUE(source_.settle(batch, std::vector<Settled>{Settled::delivered}));
  EXPECT_EQ(source_.quiet_since(), clock_.now());
  source_.drop();
  EXPECT_FALSE(source_.quiet_since());
}

}  // namespace
}  // namespace dovetail
