#include "core/sinks/key_order.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

namespace dovetail {
namespace {

using Turn = KeyOrder::Turn;

class KeyOrderTest : public testing::Test {
 protected:
  // A batch with an event of each key; returns the tag of the first.
  std::uint64_t submit(const std::vector<std::uint64_t>& keys) {
    std::vector<const Event*> batch;
    for (const std::uint64_t key : keys) {
      events_.emplace_back().key_hash = key;
      batch.push_back(&events_.back());
    }
    const std::uint64_t first = next_tag_;
    next_tag_ += keys.size();
    order_.add_batch(first, batch);
    return first;
  }

  KeyOrder order_;
  std::deque<Event> events_;
  std::uint64_t next_tag_ = 1;
};

TEST_F(KeyOrderTest, ManyEventsOfAKeyMayBeInOneChannel) {
  submit({7, 7, 7});
  for (std::uint64_t tag = 1; tag <= 3; ++tag) EXPECT_EQ(order_.place(tag, 50), Turn::now);
}

TEST_F(KeyOrderTest, AnEventForAnotherChannelWaitsForAllOfItsKeyBeforeIt) {
  submit({7, 7, 7, 8});
  EXPECT_EQ(order_.place(1, 50), Turn::now);
  EXPECT_EQ(order_.place(2, 50), Turn::now);
  EXPECT_EQ(order_.place(3, 60), Turn::later);
  EXPECT_EQ(order_.place(4, 60), Turn::now) << "another key";
  order_.confirmed(2);
  EXPECT_FALSE(order_.take_due());
  order_.confirmed(1);
  ASSERT_EQ(order_.take_due(), 3U);
  EXPECT_EQ(order_.place(3, 60), Turn::now);
  EXPECT_FALSE(order_.take_due());
}

TEST_F(KeyOrderTest, BehindAWaitingEventWaitsTheNextOneEvenForTheChannelInUse) {
  submit({7, 7, 7});
  EXPECT_EQ(order_.place(1, 50), Turn::now);
  EXPECT_EQ(order_.place(2, 60), Turn::later);
  EXPECT_EQ(order_.place(3, 50), Turn::later);
  order_.confirmed(1);
  ASSERT_EQ(order_.take_due(), 2U);
  EXPECT_EQ(order_.place(2, 60), Turn::now);
  ASSERT_EQ(order_.take_due(), 3U);
  EXPECT_EQ(order_.place(3, 50), Turn::later);
  EXPECT_FALSE(order_.take_due());
  order_.confirmed(2);
  ASSERT_EQ(order_.take_due(), 3U);
  EXPECT_EQ(order_.place(3, 50), Turn::now);
}

TEST_F(KeyOrderTest, InChannelsOfTheirOwnOneEventOfAKeyIsInFlight) {
  submit({7, 7});
  EXPECT_EQ(order_.place(1, KeyOrder::own_channel(1)), Turn::now);
  EXPECT_EQ(order_.place(2, KeyOrder::own_channel(2)), Turn::later);
  order_.confirmed(1);
  ASSERT_EQ(order_.take_due(), 2U);
  EXPECT_EQ(order_.place(2, KeyOrder::own_channel(2)), Turn::now);
}

TEST_F(KeyOrderTest, BehindAFailureNothingOfTheKeyGoesUntilTheFailureIsCollected) {
  submit({7, 7, 8});
  EXPECT_EQ(order_.place(1, 50), Turn::now);
  EXPECT_EQ(order_.place(2, 60), Turn::later);
  order_.failed(1);
  ASSERT_EQ(order_.take_due(), 2U);
  EXPECT_EQ(order_.place(2, 60), Turn::never);
  EXPECT_EQ(order_.place(3, 50), Turn::now);
  submit({7});
  EXPECT_EQ(order_.place(4, 50), Turn::never) << "submitted before the failure was collected";
  order_.collected();
  submit({7});
  EXPECT_EQ(order_.place(5, 50), Turn::never) << "the second batch is not collected";
  order_.collected();
  order_.collected();
  submit({7});
  EXPECT_EQ(order_.place(6, 50), Turn::now);
}

TEST_F(KeyOrderTest, AnEventThatIsRefusedBeforeItIsSentBlocksItsKey) {
  submit({7, 7});
  order_.failed(1);
  EXPECT_EQ(order_.place(2, 50), Turn::never);
}

TEST_F(KeyOrderTest, WhereTheFirstGoesAloneManyFollowItsConfirmation) {
  KeyOrder order(KeyOrder::First::alone);
  std::deque<Event> events(7);
  std::vector<const Event*> batch;
  for (Event& event : events) {
    event.key_hash = 7;
    batch.push_back(&event);
  }
  order.add_batch(1, batch);
  EXPECT_EQ(order.place(1, 50), Turn::now);
  EXPECT_EQ(order.place(2, 50), Turn::later);
  EXPECT_EQ(order.place(3, 50), Turn::later);
  order.confirmed(1);
  for (std::uint64_t tag = 2; tag <= 3; ++tag) {
    ASSERT_EQ(order.take_due(), tag);
    EXPECT_EQ(order.place(tag, 50), Turn::now);
  }
  order.confirmed(2);
  order.confirmed(3);
  EXPECT_EQ(order.place(4, 60), Turn::now) << "another channel";
  EXPECT_EQ(order.place(5, 60), Turn::later);
  order.confirmed(4);
  ASSERT_EQ(order.take_due(), 5U);
  EXPECT_EQ(order.place(5, 60), Turn::now);
  order.confirmed(5);
  order.forget_idle_keys();
  EXPECT_EQ(order.place(6, 60), Turn::now);
  EXPECT_EQ(order.place(7, 60), Turn::later);
}

TEST_F(KeyOrderTest, EventsWithoutAKeyPass) {
  submit({0, 0, 0});
  EXPECT_EQ(order_.place(1, 50), Turn::now);
  order_.failed(1);
  EXPECT_EQ(order_.place(2, 60), Turn::now);
  EXPECT_EQ(order_.place(3, 70), Turn::now);
  EXPECT_FALSE(order_.take_due());
}

TEST_F(KeyOrderTest, ASecondAnswerAndAnUnknownOneChangeNothing) {
  submit({7, 7, 7});
  EXPECT_EQ(order_.place(1, 50), Turn::now);
  EXPECT_EQ(order_.place(2, 50), Turn::now);
  EXPECT_EQ(order_.place(3, 60), Turn::later);
  order_.confirmed(1);
  order_.confirmed(1);
  order_.failed(1);
  order_.confirmed(99);
  order_.failed(99);
  EXPECT_FALSE(order_.take_due()) << "the second event is not confirmed";
  order_.confirmed(2);
  EXPECT_EQ(order_.take_due(), 3U);
}

TEST_F(KeyOrderTest, AfterClearTheKeysAreFree) {
  submit({7, 7});
  EXPECT_EQ(order_.place(1, 50), Turn::now);
  EXPECT_EQ(order_.place(2, 60), Turn::later);
  order_.failed(1);
  order_.clear();
  EXPECT_FALSE(order_.take_due());
  EXPECT_EQ(submit({7}), 3U);
  EXPECT_EQ(order_.place(3, 60), Turn::now);
}

// A broker that confirms or refuses what is first in one of its channels; what a key has behind a
// refused event in that channel is refused, too.
class Model {
 public:
  enum class Fate { open, confirmed, failed };

  explicit Model(KeyOrder::First first) : order_(first) {}

  void submit(const std::vector<std::uint64_t>& keys) {
    std::vector<const Event*> batch;
    const std::uint64_t first = fates_.size() + 1;
    for (const std::uint64_t key : keys) {
      events_.emplace_back().key_hash = key;
      batch.push_back(&events_.back());
      fates_.push_back(Fate::open);
      collected_.push_back(false);
    }
    order_.add_batch(first, batch);
    sizes_.push_back(keys.size());
    for (std::uint64_t tag = first; tag < first + keys.size(); ++tag) place(tag);
    send_due();
  }
  void answer(std::uint64_t channel, bool confirms) {
    std::deque<std::uint64_t>& sent = channels_[channel];
    if (sent.empty()) return;
    const std::uint64_t tag = sent.front();
    sent.pop_front();
    if (confirms) {
      fates_[tag - 1] = Fate::confirmed;
      order_.confirmed(tag);
    } else {
      fail(tag);
      const std::uint64_t key = key_of(tag);
      for (const std::uint64_t later : sent)
        if (key != 0 && key_of(later) == key) fail(later);
      std::erase_if(sent, [&](std::uint64_t later) { return key != 0 && key_of(later) == key; });
    }
    send_due();
  }
  void collect() {
    if (sizes_.empty()) return;
    for (std::size_t i = 0; i < sizes_.front(); ++i)
      if (fates_[next_ + i] == Fate::open) return;
    for (std::size_t i = 0; i < sizes_.front(); ++i) collected_[next_++] = true;
    sizes_.pop_front();
    order_.collected();
  }
  void finish() {
    for (std::size_t i = 0; i < fates_.size(); ++i)
      for (std::uint64_t channel = 0; channel < 3; ++channel) answer(channel, true);
    while (!sizes_.empty()) {
      const std::size_t before = sizes_.size();
      collect();
      RC_ASSERT(sizes_.size() < before);  // every event has an answer
    }
  }

 private:
  std::uint64_t key_of(std::uint64_t tag) const { return events_[tag - 1].key_hash; }
  void fail(std::uint64_t tag) {
    fates_[tag - 1] = Fate::failed;
    order_.failed(tag);
  }
  void send_due() {
    while (const auto tag = order_.take_due()) place(*tag);
  }
  void place(std::uint64_t tag) {
    const std::uint64_t channel = tag * 2654435761U % 3;
    switch (order_.place(tag, channel)) {
      case Turn::now:
        check(tag, channel);
        channels_[channel].push_back(tag);
        break;
      case Turn::later:
        break;
      case Turn::never:
        fail(tag);
        break;
    }
  }
  void check(std::uint64_t tag, std::uint64_t channel) const {
    if (key_of(tag) == 0) return;
    for (std::uint64_t earlier = 1; earlier < tag; ++earlier) {
      if (key_of(earlier) != key_of(tag)) continue;
      // Each earlier one of the key is confirmed, came back and was collected, or is in this
      // channel.
      const auto found = channels_.find(channel);
      const bool is_here = found != channels_.end() &&
                           std::count(found->second.begin(), found->second.end(), earlier) > 0;
      RC_ASSERT(is_here || fates_[earlier - 1] == Fate::confirmed ||
                (fates_[earlier - 1] == Fate::failed && collected_[earlier - 1]));
    }
  }

  KeyOrder order_;
  std::deque<Event> events_;
  std::vector<Fate> fates_;
  std::vector<bool> collected_;
  std::deque<std::size_t> sizes_;
  std::size_t next_ = 0;
  std::map<std::uint64_t, std::deque<std::uint64_t>> channels_;
};

RC_GTEST_PROP(KeyOrder, NothingOfAKeyIsSentBesideAnotherChannelOrBehindAFailure, ()) {
  Model model(*rc::gen::element(KeyOrder::First::together, KeyOrder::First::alone));
  const auto steps = *rc::gen::scale(
      0.3,
      rc::gen::container<std::vector<std::vector<std::uint64_t>>>(
          rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 4))));
  for (const std::vector<std::uint64_t>& step : steps) {
    model.submit(step);
    for (const std::uint64_t number : step) {
      model.answer(number % 3, number != 3 || step.size() % 2 == 0);
      if (number == 1) model.collect();
    }
  }
  model.finish();
}

}  // namespace
}  // namespace dovetail
