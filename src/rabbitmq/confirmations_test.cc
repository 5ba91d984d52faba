#include "rabbitmq/confirmations.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/clock.h"

namespace dovetail::rabbitmq {
namespace {

EventId id_of(std::uint64_t number) {
  EventId id;
  for (std::size_t i = 0; i < 8; ++i)
    id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  return id;
}

class ConfirmationsTest : public testing::Test {
 protected:
  std::uint64_t publish(std::size_t count) {
    const std::uint64_t first = tracker_.add_batch(count);
    for (std::uint64_t i = 0; i < count; ++i)
      confirmations_.published(first + i, id_of(++published_));
    return first;
  }
  std::vector<Fate> take(std::size_t count) {
    std::vector<Outcome> outcomes(count);
    EXPECT_TRUE(tracker_.oldest_is_complete());
    tracker_.take_oldest(outcomes);
    std::vector<Fate> fates;
    for (const Outcome& outcome : outcomes) fates.push_back(outcome.fate);
    return fates;
  }

  ConfirmTracker tracker_;
  Confirmations confirmations_{tracker_};
  std::uint64_t published_ = 0;
};

using Fates = std::vector<Fate>;

TEST_F(ConfirmationsTest, AnAckForAllUpToOneConfirmsThemAll) {
  publish(3);
  EXPECT_TRUE(confirmations_.acked(3, true));
  EXPECT_EQ(take(3), Fates(3, Fate::confirmed));
  EXPECT_EQ(confirmations_.outstanding(), 0U);
}

TEST_F(ConfirmationsTest, AcksInAnyOrderConfirmWhatTheyName) {
  publish(3);
  EXPECT_TRUE(confirmations_.acked(3, false));
  EXPECT_TRUE(confirmations_.acked(1, false));
  EXPECT_FALSE(tracker_.oldest_is_complete());
  EXPECT_TRUE(confirmations_.nacked(2, false));
  EXPECT_EQ(take(3), (Fates{Fate::confirmed, Fate::busy, Fate::confirmed}));
}

TEST_F(ConfirmationsTest, AReturnOutweighsTheAckThatFollows) {
  publish(3);
  confirmations_.returned(id_of(2).to_string(), "no queue");
  EXPECT_TRUE(confirmations_.acked(3, true));
  EXPECT_EQ(take(3), (Fates{Fate::confirmed, Fate::busy, Fate::confirmed}));
}

TEST_F(ConfirmationsTest, AReturnOfAnEventThatIsThereTwiceCountsForTheFirst) {
  const std::uint64_t first = tracker_.add_batch(2);
  confirmations_.published(first, id_of(7));
  confirmations_.published(first + 1, id_of(7));
  confirmations_.returned(id_of(7).to_string(), "no queue");
  EXPECT_TRUE(confirmations_.acked(2, true));
  EXPECT_EQ(take(2), (Fates{Fate::busy, Fate::confirmed}));
}

TEST_F(ConfirmationsTest, ANumberThatWasNeverPublishedIsNoticed) {
  publish(1);
  EXPECT_FALSE(confirmations_.acked(2, false));
  EXPECT_FALSE(confirmations_.acked(0, false));
  EXPECT_TRUE(confirmations_.acked(1, false));
  EXPECT_TRUE(confirmations_.acked(1, false)) << "a repeat changes nothing";
}

TEST_F(ConfirmationsTest, WhatIsNotYetDecidedStaysSoAfterAReturn) {
  publish(1);
  confirmations_.returned(id_of(1).to_string(), "no queue");
  EXPECT_FALSE(tracker_.oldest_is_complete());
}

// The protocol's rules, written as simply as possible.
class Model {
 public:
  void publish(std::uint64_t number) { fates_[number] = Fate::again; }
  void give_back(std::uint64_t number) { returned_[number] = true; }
  void settle(std::uint64_t number, bool multiple, Fate fate) {
    for (auto& [one, known] : fates_) {
      const bool meant = multiple ? number == 0 || one <= number : one == number;
      if (meant && known == Fate::again) known = returned_[one] ? Fate::busy : fate;
    }
  }
  bool is_open(std::uint64_t number) const { return fates_.at(number) == Fate::again; }
  Fate fate(std::uint64_t number) const { return fates_.at(number); }

 private:
  std::map<std::uint64_t, Fate> fates_;
  std::map<std::uint64_t, bool> returned_;
};

// Any sequence of batches, acks, nacks and returns that a server may send ends as the model says.
TEST(ConfirmationsProperty, AnySequenceOfAcksNacksAndReturnsEndsAsTheProtocolSays) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    ConfirmTracker tracker;
    Confirmations confirmations(tracker);
    Model model;
    std::uint64_t published = 0;
    std::deque<std::vector<std::uint64_t>> batches;
    const auto check_complete = [&](bool all) {
      while (tracker.oldest_is_complete()) {
        std::vector<Outcome> outcomes(batches.front().size());
        tracker.take_oldest(outcomes);
        for (std::size_t i = 0; i < outcomes.size(); ++i)
          ASSERT_EQ(outcomes[i].fate, model.fate(batches.front()[i])) << "seed " << seed;
        batches.pop_front();
      }
      ASSERT_TRUE(!all || batches.empty()) << "seed " << seed;
    };
    for (int step = 0; step < 120; ++step) {
      const std::uint64_t choice = random.below(10);
      if (published == 0 || choice < 3) {
        const std::size_t count = 1 + random.below(6);
        const std::uint64_t first = tracker.add_batch(count);
        std::vector<std::uint64_t>& batch = batches.emplace_back();
        for (std::uint64_t i = 0; i < count; ++i) {
          batch.push_back(++published);
          model.publish(published);
          confirmations.published(first + i, id_of(published));
        }
      } else if (choice == 3) {
        const std::uint64_t number = 1 + random.below(published);
        if (model.is_open(number)) {
          model.give_back(number);
          confirmations.returned(id_of(number).to_string(), "no queue");
        }
      } else {
        const bool multiple = random.chance(0.4);
        const std::uint64_t number =
            multiple && random.chance(0.1) ? 0 : 1 + random.below(published);
        const bool ack = random.chance(0.7);
        model.settle(number, multiple, ack ? Fate::confirmed : Fate::busy);
        ASSERT_TRUE(ack ? confirmations.acked(number, multiple)
                        : confirmations.nacked(number, multiple));
      }
      check_complete(false);
    }
    model.settle(0, true, Fate::confirmed);
    confirmations.acked(0, true);
    check_complete(true);
    ASSERT_EQ(confirmations.outstanding(), 0U);
  }
}

}  // namespace
}  // namespace dovetail::rabbitmq
