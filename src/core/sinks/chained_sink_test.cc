#include "core/sinks/chained_sink.h"

#include <gtest/gtest.h>

#include "core/testing/test_sinks.h"

namespace dovetail {
namespace {

using Payloads = std::vector<std::string>;
using Fates = std::vector<Fate>;

class ChainedSinkTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(chain_.open()); }

  void submit(const std::vector<const Event*>& events) { ASSERT_TRUE(chain_.submit(events)); }
  std::vector<Outcome> collect(std::size_t count) { return collect_from(chain_, count); }
  bool hands_out(std::size_t count) {
    std::vector<Outcome> outcomes(count);
    const Result<bool> known = chain_.collect(outcomes, Duration{0});
    EXPECT_TRUE(known);
    return known && *known;
  }
  // The stage fails for events with this payload.
  static void refuse(HeldSink& stage, std::string payload, Fate fate = Fate::failed) {
    stage.memory.decide_by([payload, fate](const Event& event) {
      if (event.payload == payload) return Outcome{fate, 3, "refused by the test"};
      return Outcome{Fate::confirmed, 0, {}};
    });
  }

  NumberedEvents events_;
  HeldSink first_;
  HeldSink second_;
  HeldSink third_;
  ChainedSink chain_{
      {{borrowed(first_)},
       {borrowed(second_), [](const Event& event) { return event.type != "private"; }},
       {borrowed(third_)}}};
};

TEST_F(ChainedSinkTest, EveryEventPassesEveryStageInOrder) {
  submit({events_.make("a", "1"), events_.make("b", "2")});
  submit({events_.make("a", "3")});
  EXPECT_EQ(fates_of(collect(2)), (Fates{Fate::confirmed, Fate::confirmed}));
  EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::confirmed}));
  for (const HeldSink* stage : {&first_, &second_, &third_})
    EXPECT_EQ(stage->payloads(), (Payloads{"1", "2", "3"}));
}

TEST_F(ChainedSinkTest, WhatFailsInOneStageIsNotTriedInTheNextAndNeighboursGoOn) {
  refuse(second_, "1");
  submit({events_.make("a", "1"), events_.make("a", "2"), events_.make("b", "3")});
  const auto outcomes = collect(3);
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::failed, Fate::again, Fate::confirmed}));
  EXPECT_EQ(outcomes[0].attempts, 3U);
  EXPECT_EQ(outcomes[0].reason, "refused by the test");
  EXPECT_EQ(first_.payloads(), (Payloads{"1", "2", "3"}));
  EXPECT_EQ(second_.payloads(), (Payloads{"3"}));
  EXPECT_EQ(third_.payloads(), (Payloads{"3"}));
}

TEST_F(ChainedSinkTest, WhatComesAgainIsADuplicateWhereItWasAndGoesOnFromThere) {
  refuse(second_, "1");
  const Event* one = events_.make("a", "1");
  submit({one});
  EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::failed}));
  refuse(second_, "nothing");
  submit({one});
  EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::confirmed}));
  submit({one});
  EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::duplicate}));
  for (const HeldSink* stage : {&first_, &second_, &third_})
    EXPECT_EQ(stage->payloads(), (Payloads{"1"}));
}

TEST_F(ChainedSinkTest, EachStageWorksOnABatchOfItsOwn) {
  third_.may_collect = 0;
  submit({events_.make("a", "1")});
  submit({events_.make("a", "2")});
  submit({events_.make("a", "3")});
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(hands_out(1));
  EXPECT_EQ(second_.payloads(), (Payloads{"1", "2", "3"})) << "it does not wait for the third";
  EXPECT_EQ(third_.submitted, 3U);
  third_.may_collect = HeldSink::kAll;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::confirmed}));
}

TEST_F(ChainedSinkTest, AnEventThatAStageDoesNotTakeDoesNotOvertakeItsKeyThere) {
  second_.may_collect = 0;
  submit({events_.make("a", "1")});
  submit({events_.make("a", "2", "private")});
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(hands_out(1));
  EXPECT_EQ(third_.submitted, 0U) << "the second batch waits behind the first";
  second_.may_collect = HeldSink::kAll;
  collect(1);
  collect(1);
  EXPECT_EQ(second_.payloads(), (Payloads{"1"}));
  EXPECT_EQ(third_.payloads(), (Payloads{"1", "2"}));
}

TEST_F(ChainedSinkTest, BehindAFailureAnEventThatTheFailedStageDoesNotTakeWaitsToo) {
  refuse(second_, "1");
  submit({events_.make("a", "1"), events_.make("a", "2", "private")});
  EXPECT_EQ(fates_of(collect(2)), (Fates{Fate::failed, Fate::again}));
  EXPECT_EQ(third_.payloads(), Payloads{});
}

TEST_F(ChainedSinkTest, AFailureHoldsBackWhatStillWasInTheStageBefore) {
  refuse(third_, "1");
  first_.may_collect = 1;
  submit({events_.make("a", "1")});
  submit({events_.make("a", "2"), events_.make("b", "3")});
  EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::failed}));
  first_.may_collect = HeldSink::kAll;
  EXPECT_EQ(fates_of(collect(2)), (Fates{Fate::again, Fate::confirmed}));
  EXPECT_EQ(third_.payloads(), (Payloads{"3"}));
}

TEST_F(ChainedSinkTest, AFailureHoldsBackWhatIsSubmittedBeforeItIsHandedOut) {
  refuse(first_, "1");
  second_.may_collect = 0;
  submit({events_.make("a", "1"), events_.make("b", "2")});
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(hands_out(2));
  submit({events_.make("a", "3")});
  second_.may_collect = HeldSink::kAll;
  EXPECT_EQ(fates_of(collect(2)), (Fates{Fate::failed, Fate::confirmed}));
  EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::again}));
  EXPECT_EQ(first_.payloads(), (Payloads{"2"}));
}

TEST_F(ChainedSinkTest, AnErrorOfAStageIsOneOfTheChainAndOpeningForgetsWhatWasInIt) {
  third_.may_collect = 0;
  const Event* one = events_.make("a", "1");
  submit({one});
  EXPECT_FALSE(hands_out(1));
  second_.memory.set_available(false);
  submit({events_.make("a", "2")});
  std::vector<Outcome> outcomes(1);
  Result<bool> known = chain_.collect(outcomes, Duration{0});
  for (int i = 0; i < 4 && known; ++i) known = chain_.collect(outcomes, Duration{0});
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, Errc::unavailable);
  EXPECT_FALSE(chain_.open()) << "it is still away";
  second_.memory.set_available(true);
  third_.may_collect = HeldSink::kAll;
  ASSERT_TRUE(chain_.open());
  EXPECT_FALSE(hands_out(1));
  submit({one});
  EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::confirmed}));
}

TEST_F(ChainedSinkTest, WaitingIsSharedAmongTheStagesThatHaveSomething) {
  second_.may_collect = 0;
  third_.may_collect = 0;
  submit({events_.make("a", "1", "private")});
  submit({events_.make("a", "2")});
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(hands_out(1));
  std::vector<Outcome> outcomes(1);
  second_.waited = third_.waited = Duration{0};
  ASSERT_TRUE(chain_.collect(outcomes, Duration{1000}));
  EXPECT_EQ(second_.waited, Duration{500});
  EXPECT_EQ(third_.waited, Duration{500});
}

TEST_F(ChainedSinkTest, OrderIsKeptOnlyWhereEveryStageKeepsIt) {
  EXPECT_TRUE(chain_.keeps_order_on_failure());
  HeldSink loose{{.dedup = true, .keeps_order_on_failure = false}};
  EXPECT_FALSE((ChainedSink{{{borrowed(first_)}, {borrowed(loose)}}}.keeps_order_on_failure()));
}

}  // namespace
}  // namespace dovetail
