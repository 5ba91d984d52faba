#include "core/life/life.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "core/relay/parking.h"

namespace dovetail::life {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kStart{1'760'000'000s};

Facts committed(EventState state = EventState::delivered) {
  Facts facts;
  OutboxFacts place{.store = "shop"};
  place.row.position = 42;
  place.row.aggregate_type = "order";
  place.row.aggregate_id = "17";
  place.row.payload_bytes = 214;
  place.row.created_at = kStart;
  place.row.state = state;
  facts.places.push_back(place);
  facts.relays.push_back({.name = "shop-to-bus",
                          .from = "shop",
                          .to = "bus",
                          .topic = "order.events",
                          .topic_because = "the template {aggregate_type}.events",
                          .is_known = true,
                          .state = state,
                          .lane = 1,
                          .lanes = 4,
                          .owner = "relay-a",
                          .epoch = 41});
  facts.now = kStart + 1h;
  return facts;
}

// "shop committed", one line for each step.
std::vector<std::string> told(const Life& life) {
  std::vector<std::string> lines;
  for (const Step& step : life.steps) lines.push_back(step.actor + " " + step.what);
  return lines;
}

std::string explained(const Life& life) {
  std::string text;
  for (const Line& line : life.explain) text += line.title + ": " + line.text + "\n";
  return text;
}

TEST(Life, AnEventThatWasCancelledIsNotDelivered) {
  Facts facts;
  facts.decisions.push_back({"shop", {.at = kStart, .who = "olga", .what = "cancel"}});
  const Life life = life_of(facts);
  EXPECT_EQ(life.state, "discarded");
  EXPECT_EQ(life.sentence, "An operator has cancelled it before its time.");
  EXPECT_EQ(told(life), std::vector<std::string>{"olga cancel"});
}

TEST(Life, GoesFromTheCommitToEveryHandler) {
  Facts facts = committed();
  facts.relays[0].deliveries.push_back(
      {kStart + 5ms, "relay-a", 82, {{"order.events", 3, 100, 180, 80}, {"other", 0, 1, 2, 2}}});
  facts.handlers.push_back({.store = "inventory", .name = "stock.mail", .applied_at = kStart + 2s});
  facts.handlers.push_back(
      {.store = "inventory", .name = "stock.ledger", .applied_at = kStart + 1s});
  const Life life = life_of(facts);
  EXPECT_EQ(told(life), (std::vector<std::string>{"shop committed", "shop-to-bus confirmed",
                                                  "stock.ledger applied", "stock.mail applied"}));
  EXPECT_EQ(life.steps[1].detail,
            "bus, in order.events, partition 3, offset 100 to 180; by relay-a with 82 events");
  EXPECT_EQ(life.steps[1].at, kStart + 5ms);
  EXPECT_EQ(life.state, "delivered");
  EXPECT_EQ(life.sentence, "It is delivered. 2 handlers have applied it.");
}

TEST(Life, WhatNoRelayCarriesIsSkippedAndNotDelivered) {
  Facts facts = committed(EventState::skipped);
  const Life life = life_of(facts);
  EXPECT_EQ(told(life), (std::vector<std::string>{"shop committed", "shop-to-bus skipped"}));
  EXPECT_EQ(life.state, "skipped");
  EXPECT_EQ(life.sentence, "It is skipped: no relay carries it.");
  facts.relays.push_back(facts.relays[0]);
  facts.relays[1].state = EventState::delivered;
  EXPECT_EQ(life_of(facts).state, "delivered") << "another relay has carried it";
}

TEST(Life, AMessageThatWasFoundSaysWhereAndWhichReceiptIsRight) {
  Facts facts = committed();
  facts.messages.push_back({"bus", "order.events", {3, 117}, kStart + 4ms});
  EXPECT_EQ(told(life_of(facts)), (std::vector<std::string>{"shop committed", "bus stored"}));
  std::vector<Delivery>& deliveries = facts.relays[0].deliveries;
  deliveries.push_back({kStart + 5ms, "relay-a", 300, {{"order.events", 3, 100, 180, 80}}});
  deliveries.push_back({kStart + 9ms, "relay-b", 20, {{"order.events", 3, 200, 219, 20}}});
  const Life life = life_of(facts);
  EXPECT_EQ(told(life),
            (std::vector<std::string>{"shop committed", "bus stored", "shop-to-bus confirmed"}));
  EXPECT_EQ(life.steps[1].detail, "order.events, partition 3, offset 117");
  EXPECT_EQ(life.steps[2].detail, "bus; by relay-a with 300 events");
  EXPECT_EQ(life.steps[2].at, kStart + 5ms);
}

TEST(Life, AReceiptThatDoesNotListEverythingSaysSo) {
  Facts facts = committed();
  Delivery delivery{kStart + 5ms, "relay-a", 300, {}};
  for (std::int32_t i = 0; i < 10; ++i) delivery.places.push_back({"order.events", i, 5, 6, 2});
  facts.relays[0].deliveries.push_back(delivery);
  const std::string detail = life_of(facts).steps[1].detail;
  EXPECT_NE(detail.find("partition 7, offset 5 to 6 and 2 more partitions"), std::string::npos);
  EXPECT_NE(detail.find("; where 280 of its events went is not noted"), std::string::npos);
}

TEST(Life, WhatNobodyRecordedIsUnknown) {
  const Life life = life_of(committed());
  ASSERT_EQ(told(life), (std::vector<std::string>{"shop committed", "shop-to-bus confirmed"}));
  EXPECT_EQ(life.steps[1].kind, "unknown");
  EXPECT_FALSE(life.steps[1].at);
}

TEST(Life, SeveralNotesLeaveTheBatchOpen) {
  Facts facts = committed();
  facts.relays[0].deliveries.push_back(
      {kStart + 5ms, "relay-a", 300, {{"order.events", 3, 1, 9, 9}}});
  facts.relays[0].deliveries.push_back(
      {kStart + 9ms, "relay-a", 10, {{"order.events", 3, 10, 19, 9}}});
  EXPECT_NE(life_of(facts).steps[1].detail.find("in one of 2 batches"), std::string::npos);
}

TEST(Life, AParkedEventSaysWhyAndWhatToDo) {
  Facts facts = committed(EventState::parked);
  ParkedRow row;
  row.relay = "shop-to-bus";
  row.state = EventState::parked;
  row.reason = "422 vat_id";
  row.attempts = 5;
  row.parked_at = kStart + 3s;
  facts.relays[0].parked.push_back(row);
  facts.relays[0].waiting_behind = 3;
  const Life life = life_of(facts);
  EXPECT_EQ(told(life), (std::vector<std::string>{"shop committed", "shop-to-bus parked"}));
  EXPECT_EQ(life.steps[1].attempt, 5U);
  EXPECT_EQ(life.steps[1].kind, "bad");
  EXPECT_EQ(life.sentence, "It is parked by shop-to-bus and waits for a decision.");
  EXPECT_NE(explained(life).find("parked it: 422 vat_id"), std::string::npos);
  EXPECT_NE(explained(life).find("3 later events"), std::string::npos);
}

TEST(Life, AnEventBehindAParkedOneWasHeldBack) {
  Facts facts = committed(EventState::waiting);
  ParkedRow row;
  row.state = EventState::waiting;
  row.reason = kWaitsBehind;
  row.parked_at = kStart + 3s;
  facts.relays[0].parked.push_back(row);
  const Life life = life_of(facts);
  EXPECT_EQ(told(life), (std::vector<std::string>{"shop committed", "shop-to-bus held back"}));
  EXPECT_NE(explained(life).find("An earlier event of its key is parked by shop-to-bus"),
            std::string::npos);
}

TEST(Life, AReplayedEventWasParkedAndConfirmed) {
  Facts facts = committed();
  ParkedRow row;
  row.relay = "shop-to-bus";
  row.state = EventState::delivered;
  row.reason = "422 vat_id";
  row.parked_at = kStart + 3s;
  row.finished_at = kStart + 10min;
  facts.relays[0].parked.push_back(row);
  AuditRow audit;
  audit.at = kStart + 9min;
  audit.who = "olga";
  audit.what = "replay";
  audit.relay = "shop-to-bus";
  facts.decisions.push_back({"shop", audit});
  EXPECT_EQ(told(life_of(facts)),
            (std::vector<std::string>{"shop committed", "shop-to-bus parked", "olga replay",
                                      "shop-to-bus confirmed"}));
}

TEST(Life, APendingEventSaysWhatIsInTheWay) {
  Facts facts = committed(EventState::pending);
  EXPECT_NE(explained(life_of(facts)).find("It goes out by itself"), std::string::npos);
  facts.relays[0].owner.clear();
  EXPECT_NE(explained(life_of(facts)).find("No process runs shop-to-bus"), std::string::npos);
  facts.relays[0].said = SaidState{.state = "backing_off",
                                   .last_error = "mq-1:5671 refuses connections",
                                   .next_try = kStart + 1h,
                                   .is_current = true};
  EXPECT_NE(explained(life_of(facts)).find("backing off: mq-1:5671 refuses connections"),
            std::string::npos);
  EXPECT_EQ(life_of(facts).sentence, "It is committed and not delivered yet.");
}

TEST(Life, TheRuleThatRoutesItIsNamed) {
  Facts facts = committed();
  facts.relays.push_back(
      {.name = "mails", .from = "shop", .to = "mail", .left_out_because = "types has mail.*"});
  const std::string text = explained(life_of(facts));
  EXPECT_NE(text.find("[[relay]] shop-to-bus: from shop to bus. Its topic is order.events: the "
                      "template {aggregate_type}.events."),
            std::string::npos);
  EXPECT_NE(text.find("Lane 1 of 4 of shop-to-bus; relay-a owns it, epoch 41."), std::string::npos);
  EXPECT_NE(text.find("[[relay]] mails leaves it out: types has mail.*."), std::string::npos);
}

TEST(Life, AnotherPayloadAtAHandlerIsBad) {
  Facts facts = committed();
  facts.handlers.push_back(
      {.store = "inventory", .name = "stock", .applied_at = kStart + 1s, .is_same = false});
  EXPECT_EQ(life_of(facts).steps.back().kind, "bad");
}

TEST(Life, AFailingHandlerCountsItsAttempts) {
  Facts facts = committed();
  facts.handlers.push_back(
      {.store = "inventory", .name = "stock", .attempts = 3, .tried_at = kStart + 8s});
  const Life life = life_of(facts);
  EXPECT_EQ(life.steps.back().what, "failed");
  EXPECT_EQ(life.steps.back().attempt, 3U);
}

TEST(Life, AScheduledEventWaitsForItsTime) {
  Facts facts = committed(EventState::delayed);
  facts.relays.clear();
  facts.places[0].row.deliver_at = kStart + 1h;
  const Life life = life_of(facts);
  EXPECT_EQ(told(life), std::vector<std::string>{"shop scheduled"});
  EXPECT_EQ(life.sentence, "It waits for its time.");
}

TEST(Life, AnOutboxThatCouldNotBeReadLeavesTheStateUnknown) {
  Facts facts;
  facts.places.push_back({.store = "inventory", .source = SourceKind::mailbox});
  facts.relays.push_back({.name = "stock",
                          .from = "inventory",
                          .to = "inventory",
                          .is_consumer = true,
                          .state = EventState::pending});
  facts.unasked.push_back({"shop", "permission denied", true});
  const Life life = life_of(facts);
  EXPECT_EQ(life.state, "unknown");
  EXPECT_EQ(life.sentence,
            "What became of it is unknown: the outbox of shop could not be read. It has arrived in "
            "inventory, and stock has not applied it yet.");
  facts.relays[0].state = EventState::parked;
  EXPECT_EQ(life_of(facts).state, "parked") << "whatever the outbox says, this needs a decision";
  facts.relays[0].state = EventState::pending;
  facts.places.push_back({.store = "other"});
  EXPECT_EQ(life_of(facts).state, "pending") << "an id is in one outbox";
}

TEST(Life, ARowOfATableOfTheApplicationTellsWhatItHas) {
  Facts facts = committed();
  facts.places[0].table = "orders.outbox";
  facts.places[0].is_dated = false;
  facts.relays[0].deliveries.push_back({.at = kStart + 5ms});
  const Life life = life_of(facts);
  ASSERT_EQ(told(life), (std::vector<std::string>{"shop committed", "shop-to-bus confirmed"}));
  EXPECT_FALSE(life.steps[0].at);
  EXPECT_EQ(life.steps[0].detail, "table orders.outbox, 214 bytes");
  EXPECT_EQ(life.steps[1].at, kStart + 5ms);
  EXPECT_EQ(life.steps[1].detail,
            "bus; its row says when; by which process and where nobody recorded");
}

TEST(Life, WhatCouldNotBeAskedIsSaid) {
  Facts facts = committed();
  facts.unasked.push_back({"bus", "no broker answers"});
  EXPECT_NE(explained(life_of(facts)).find("Not asked: bus: no broker answers"), std::string::npos);
  EXPECT_TRUE(is_found(facts));
  EXPECT_FALSE(is_found(Facts{}));
}

}  // namespace
}  // namespace dovetail::life
