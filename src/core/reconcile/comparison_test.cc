#include "core/reconcile/comparison.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/event/event_id.h"

namespace dovetail::reconcile {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kStart{1'760'000'000s};

// An id of version 7 of a millisecond after the start; `number` keeps ids of it apart.
EventId id_at(std::int64_t ms, std::uint8_t number = 0, std::uint8_t version = 7) {
  EventId id;
  const std::int64_t time = kStart.time_since_epoch().count() / 1000 + ms;
  for (int i = 0; i < 6; ++i)
    id.bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(time >> (40 - 8 * i));
  id.bytes[6] = static_cast<std::uint8_t>(version << 4);
  id.bytes[8] = 0x80;
  id.bytes[15] = number;
  return id;
}

Published event_at(std::int64_t ms, std::int64_t digest = 1) {
  Published row;
  row.event.id = id_at(ms);
  row.event.created_at = kStart + std::chrono::milliseconds(ms);
  row.event.type = "placed";
  row.event.aggregate_type = "order";
  row.event.aggregate_id = "17";
  row.digest = digest;
  return row;
}

Received received_at(std::int64_t ms, Duration after = 5ms, std::int64_t digest = 1) {
  return {.id = id_at(ms),
          .receiver = 0,
          .at = kStart + std::chrono::milliseconds(ms) + after,
          .digest = digest};
}

template <class Row>
class Rows final : public Stream<Row> {
 public:
  explicit Rows(std::vector<Row> rows) : rows_(std::move(rows)) {}
  Result<const Row*> next() override {
    if (at_ == rows_.size()) return nullptr;
    current_ = rows_[at_++];  // the one before is gone, as in a page that is read anew
    return &current_;
  }

 private:
  std::vector<Row> rows_;
  std::size_t at_ = 0;
  Row current_{};
};

struct World {
  std::vector<Published> published{};
  std::vector<Received> received{};
  std::vector<Held> held{};
  std::vector<EventId> known_now{};
  Rules rules{.receivers = {{.name = "stock"}}};

  Outcome compare() const {
    Rows<Published> left(published);
    Rows<Received> right(received);
    Rows<Held> back(held);
    const Sides sides{left, right, {&back}, [&](std::span<const EventId> ids) {
                        std::vector<EventId> known;
                        for (const EventId& id : ids)
                          if (std::count(known_now.begin(), known_now.end(), id) != 0)
                            known.push_back(id);
                        return known;
                      }};
    auto outcome = reconcile::compare(rules, sides);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().text);
    return outcome ? *outcome : Outcome{};
  }
};

std::vector<std::string> found(const Outcome& outcome) {
  std::vector<std::string> lines;
  for (const Finding& one : outcome.findings)
    lines.push_back(findings_line(one.kind, one.receiver, one.id));
  return lines;
}

std::string line(Kind kind, std::int64_t ms, const std::string& receiver = "stock") {
  return findings_line(kind, receiver, id_at(ms));
}

TEST(Comparison, EqualSidesHaveNoFindings) {
  World world{{event_at(1), event_at(2)}, {received_at(1), received_at(2)}};
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.events, 2U);
  EXPECT_EQ(outcome.counts.received, 2U);
  EXPECT_EQ(outcome.counts.findings(), 0U);
  EXPECT_EQ(outcome.longest, 5ms);
}

TEST(Comparison, NamesWhatIsMissingExtraAlteredAndLate) {
  World world{{event_at(1), event_at(2), event_at(3), event_at(5)},
              {received_at(2, 5ms, 99), received_at(3, 2s), received_at(4), received_at(5)}};
  world.rules.late_after = 1s;
  EXPECT_EQ(found(world.compare()),
            (std::vector<std::string>{line(Kind::missing, 1), line(Kind::extra, 4),
                                      line(Kind::altered, 2), line(Kind::late, 3)}));
}

TEST(Comparison, WhatIsHeldBackIsListedApart) {
  World world{{event_at(1), event_at(2), event_at(3), event_at(4), event_at(5), event_at(6)}, {}};
  world.held = {{id_at(1), Hold::parked}, {id_at(2), Hold::waiting}, {id_at(3), Hold::discarded}};
  world.published[3].progress = Progress::pending;
  world.published[4].progress = Progress::delayed;
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.parked, 1U);
  EXPECT_EQ(outcome.counts.waiting, 2U);
  EXPECT_EQ(outcome.counts.discarded, 1U);
  EXPECT_EQ(outcome.counts.delayed, 1U);
  EXPECT_EQ(found(outcome), std::vector<std::string>{line(Kind::missing, 6)});
}

// A parked event that was applied after all is applied.
TEST(Comparison, AReplayedEventIsReceivedOnce) {
  World world{{event_at(1)}, {received_at(1)}};
  world.held = {{id_at(1), Hold::parked}};
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.received, 1U);
  EXPECT_EQ(outcome.counts.parked, 0U);
}

TEST(Comparison, EachHandlerIsJudgedByWhatItWants) {
  World world{{event_at(1), event_at(2)}, {received_at(1), received_at(2)}};
  world.published[1].event.type = "shipped";
  world.received[1].receiver = 1;
  world.rules.receivers = {
      {.name = "stock.ledger", .wants = [](const Event& event) { return event.type == "placed"; }},
      {.name = "stock.mail"}};
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.skipped, 1U);
  EXPECT_EQ(outcome.counts.received, 2U);
  EXPECT_EQ(found(outcome), std::vector<std::string>{line(Kind::missing, 1, "stock.mail")});
}

TEST(Comparison, OnlyTheTimeThatBothSidesRetainIsJudged) {
  World world{{event_at(10), event_at(20), event_at(30)}, {received_at(5), received_at(35)}};
  world.rules.from = kStart + 20ms;
  world.rules.to = kStart + 30ms;
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.outside, 2U);
  EXPECT_EQ(outcome.counts.events, 1U);
  EXPECT_EQ(found(outcome), std::vector<std::string>{line(Kind::missing, 20)});
}

// An event whose id was made long before it went out is retained by one of its times alone.
TEST(Comparison, ADelayedEventThatTheOutboxHasDroppedByItsIdIsNotExtra) {
  World world{{}, {received_at(5)}};
  world.rules.from = kStart + 20ms;
  world.received[0].available_at = kStart + 2h;
  EXPECT_EQ(world.compare().counts.extra, 0U);
}

TEST(Comparison, WhatTheInboxMayHaveForgottenIsNotMissing) {
  World world{{event_at(1), event_at(2)}, {}};
  world.rules.receivers[0].forgotten_until = kStart + 1ms;
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.forgotten, 1U);
  EXPECT_EQ(found(outcome), std::vector<std::string>{line(Kind::missing, 2)});
}

TEST(Comparison, WhatABrokerMayStillCarryWaits) {
  World world{{event_at(1), event_at(100)}, {}};
  world.rules.on_the_way_since = kStart + 100ms;
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.waiting, 1U);
  EXPECT_EQ(found(outcome), std::vector<std::string>{line(Kind::missing, 1)});
}

TEST(Comparison, WhatWasPublishedMeanwhileIsNotExtra) {
  World world{{}, {received_at(1), received_at(2)}};
  world.known_now = {id_at(1)};
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.newer, 1U);
  EXPECT_EQ(found(outcome), std::vector<std::string>{line(Kind::extra, 2)});
}

// Ids made from the names of messages that carry none, and other outboxes of the same consumer.
TEST(Comparison, EventsFromElsewhereAreCountedApart) {
  World world{{}, {received_at(1)}};
  world.received[0].id = id_at(1, 0, 5);
  EXPECT_EQ(world.compare().counts.foreign, 1U);
  world.received[0].id = id_at(1);
  EXPECT_EQ(world.compare().counts.extra, 1U);
  world.rules.has_other_sources = true;
  EXPECT_EQ(world.compare().counts.extra, 0U);
  EXPECT_EQ(world.compare().counts.foreign, 1U);
}

// At least once: a topic may have copies. One of them with another payload is an event that uses
// the id a second time.
TEST(Comparison, CopiesCountAndOneThatDiffersIsAltered) {
  World world{{event_at(1), event_at(2)},
              {received_at(1), received_at(1), received_at(2), received_at(2, 9ms, 99)}};
  world.received[3].partition = 3;
  world.received[3].offset = 1234;
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.repeated, 2U);
  ASSERT_EQ(found(outcome), std::vector<std::string>{line(Kind::altered, 2)});
  EXPECT_EQ(outcome.findings[0].offset, 1234);
}

TEST(Comparison, ARowWithoutDigestFitsEveryPayloadAndIsCounted) {
  World world{{event_at(1)}, {received_at(1)}};
  world.received[0].digest.reset();
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.unverified, 1U);
  EXPECT_EQ(outcome.counts.altered, 0U);
}

// The clocks of two databases: one that is behind makes an event early, never late.
TEST(Comparison, AClockThatIsBehindIsCounted) {
  World world{{event_at(1)}, {received_at(1, -3s)}};
  world.rules.late_after = 1s;
  const Outcome outcome = world.compare();
  EXPECT_EQ(outcome.counts.early, 1U);
  EXPECT_EQ(outcome.counts.late, 0U);
}

TEST(Comparison, AnEventThatIsAppliedBeforeItIsDueIsExtra) {
  World world{{event_at(1)}, {received_at(1)}};
  world.published[0].progress = Progress::delayed;
  EXPECT_EQ(found(world.compare()), std::vector<std::string>{line(Kind::extra, 1)});
}

TEST(Comparison, MoreFindingsThanAreListedStillCount) {
  World world;
  for (int i = 0; i < 50; ++i) world.published.push_back(event_at(i));
  world.received = {received_at(100)};
  const Outcome all = world.compare();
  world.rules.findings_max = 3;
  const Outcome some = world.compare();
  EXPECT_EQ(some.counts.missing, 50U);
  EXPECT_EQ(some.findings.size(), 4U);  // three missing, and the extra one
  EXPECT_EQ(some.findings_digest, all.findings_digest);
  EXPECT_EQ(some.compared_digest, all.compared_digest);
}

TEST(Comparison, StopsWhenItIsTold) {
  World world;
  for (int i = 0; i < 5000; ++i) world.published.push_back(event_at(i));
  Rows<Published> left(world.published);
  Rows<Received> right({});
  const auto stopped =
      compare(world.rules, {left, right, {}, {}}, [](std::uint64_t read) { return read < 1000; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Errc::stopped);
}

// Whatever is planted among any events is found, and nothing else is.
RC_GTEST_PROP(ComparisonOfAny, FindsWhatIsPlantedAndNothingElse, ()) {
  World world;
  world.rules.late_after = 1min;
  std::vector<std::string> planted;
  const auto count = *rc::gen::inRange(0, 200);
  for (int i = 0; i < count; ++i) {
    Published event = event_at(i, *rc::gen::arbitrary<std::int64_t>());
    Received row = received_at(i, std::chrono::milliseconds(*rc::gen::inRange(-1000, 1000)));
    row.digest = event.digest;
    switch (*rc::gen::inRange(0, 12)) {
      case 0:
        planted.push_back(line(Kind::missing, i));
        world.published.push_back(event);
        continue;
      case 1:
        planted.push_back(line(Kind::extra, i));
        world.received.push_back(row);
        continue;
      case 2:
        planted.push_back(line(Kind::altered, i));
        row.digest = event.digest ^ 1;
        break;
      case 3:
        planted.push_back(line(Kind::late, i));
        row.at = event.event.created_at + 2min;
        break;
      case 4:
        world.held.push_back(
            {row.id, *rc::gen::element(Hold::parked, Hold::waiting, Hold::discarded)});
        world.published.push_back(event);
        continue;
      case 5:
        event.progress = *rc::gen::element(Progress::pending, Progress::delayed);
        world.published.push_back(event);
        continue;
      case 6:
        world.known_now.push_back(row.id);
        world.received.push_back(row);
        continue;
      case 7:
        row.digest.reset();
        break;
      case 8:
        world.received.push_back(row);
        break;
      default:
        break;
    }
    world.published.push_back(event);
    world.received.push_back(row);
  }
  std::vector<std::string> lines = found(world.compare());
  std::sort(lines.begin(), lines.end());
  std::sort(planted.begin(), planted.end());
  RC_ASSERT(lines == planted);
}

}  // namespace
}  // namespace dovetail::reconcile
