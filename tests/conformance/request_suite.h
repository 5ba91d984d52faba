// What every store of HTTP requests must do. A database implements RequestsUnderTest and
// instantiates the suite.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/cases.h"
#include "core/inbox/request.h"
#include "host/host.h"

namespace dovetail::conformance {

// A service's own connection and transactions.
class OwnTransaction {
 public:
  virtual ~OwnTransaction() = default;
  virtual void begin() = 0;
  virtual void commit() = 0;
  virtual void rollback() = 0;
  virtual Result<RequestTicket> begin_request(const RequestKey& request,
                                              std::chrono::milliseconds keep) = 0;
  virtual Status finish_request(const RequestKey& request, const EventId& token,
                                const StoredResponse& response) = 0;
};

class RequestsUnderTest {
 public:
  virtual ~RequestsUnderTest() = default;
  virtual std::unique_ptr<RequestStore> make() = 0;
  virtual std::unique_ptr<OwnTransaction> connect() = 0;
  virtual void elapse(std::chrono::milliseconds time) = 0;
  // Sets the database's clock, while it runs.
  virtual void set_clock(std::chrono::hours step) = 0;
  virtual std::vector<RequestInfo> list(const RequestFilter& filter) = 0;
  virtual Result<bool> forget(const RequestKey& request, std::string_view reason) = 0;
  virtual std::uint64_t prune(std::size_t rows_max) = 0;
};

struct RequestCase {
  std::string name;
  std::unique_ptr<RequestsUnderTest> (*make)();
};

class Requests : public testing::TestWithParam<RequestCase> {
 protected:
  static constexpr std::chrono::milliseconds kLease{60'000};
  static constexpr std::chrono::milliseconds kKeep{3'600'000};

  void SetUp() override {
    under_test_ = GetParam().make();
    store_ = open();
  }
  std::unique_ptr<RequestStore> open() {
    auto store = under_test_->make();
    const Status opened = store->open();
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
    return store;
  }
  RequestTicket begin(const RequestKey& request, bool retry_unknown = false,
                      const EventId& token = new_event_id()) {
    const auto ticket = store_->begin(request, {kLease, kKeep, retry_unknown}, token);
    EXPECT_TRUE(ticket) << (ticket ? "" : ticket.error().text);
    return ticket.value_or(RequestTicket{});
  }
  bool finish(const RequestKey& request, const EventId& token,
              const StoredResponse& response = {200, "", "done"}) {
    const auto kept = store_->finish(request, token, response);
    EXPECT_TRUE(kept) << (kept ? "" : kept.error().text);
    return kept.value_or(false);
  }
  RequestState state(const RequestKey& request) { return begin(request).state; }

  static constexpr RequestKey kOne{"shop/a", "key-1", "print-1"};
  static constexpr RequestKey kChanged{"shop/a", "key-1", "print-2"};

  std::unique_ptr<RequestsUnderTest> under_test_;
  std::unique_ptr<RequestStore> store_;
};

TEST_P(Requests, TheFirstRunsAndRepeatsGetItsAnswer) {
  const RequestTicket first = begin(kOne);
  ASSERT_EQ(first.state, RequestState::first);
  EXPECT_EQ(first.attempts, 1U);
  const StoredResponse response{201, "content-type: text/plain\nx: \xc3\xa9",
                                std::string("\0bytes\xff", 7)};
  ASSERT_TRUE(finish(kOne, first.token, response));
  for (int i = 0; i < 3; ++i) {
    const RequestTicket repeat = begin(kOne);
    ASSERT_EQ(repeat.state, RequestState::finished);
    EXPECT_EQ(repeat.response, response);
  }
  under_test_->elapse(2 * kLease);
  EXPECT_EQ(begin(kOne).response, response) << "the lease does not matter any more";
}

TEST_P(Requests, AnEmptyAnswerIsAnAnswer) {
  ASSERT_TRUE(finish(kOne, begin(kOne).token, {204, "", ""}));
  EXPECT_EQ(begin(kOne).response, (StoredResponse{204, "", ""}));
}

TEST_P(Requests, WhatRunsIsSaidToRun) {
  ASSERT_EQ(begin(kOne).state, RequestState::first);
  const RequestTicket second = begin(kOne, true);
  EXPECT_EQ(second.state, RequestState::running);
  EXPECT_GT(second.retry_after.count(), 0);
  EXPECT_LE(second.retry_after, kLease);
}

TEST_P(Requests, AnotherRequestWithTheSameKeyIsAMismatch) {
  const RequestTicket first = begin(kOne);
  EXPECT_EQ(state(kChanged), RequestState::mismatch) << "while it runs";
  under_test_->elapse(2 * kLease);
  EXPECT_EQ(begin(kChanged, true).state, RequestState::mismatch) << "when its outcome is unknown";
  ASSERT_TRUE(finish(kOne, first.token));
  EXPECT_EQ(state(kChanged), RequestState::mismatch) << "when it is finished";
  EXPECT_EQ(begin(kChanged).response, StoredResponse{}) << "it sees nothing of the answer";
}

TEST_P(Requests, KeysOfOtherScopesAreOtherKeys) {
  ASSERT_TRUE(finish(kOne, begin(kOne).token));
  EXPECT_EQ(state({"shop/b", "key-1", "print-1"}), RequestState::first);
  EXPECT_EQ(state({"shop/a", "key-2", "print-1"}), RequestState::first);
  EXPECT_EQ(state({"shop/a", "KEY-1", "print-1"}), RequestState::first) << "case matters";
  EXPECT_EQ(state({"", "key-1", "print-1"}), RequestState::first);
}

TEST_P(Requests, TheOutcomeIsUnknownAfterTheLeaseAndTheKeyIsHeld) {
  const RequestTicket first = begin(kOne);
  under_test_->elapse(2 * kLease);
  EXPECT_EQ(state(kOne), RequestState::unknown);
  EXPECT_EQ(state(kOne), RequestState::unknown);
  EXPECT_TRUE(finish(kOne, first.token)) << "who was only slow settles it";
  EXPECT_EQ(state(kOne), RequestState::finished);
}

TEST_P(Requests, ALeaseEndsAfterItsTermThoughTheClockWasSetBack) {
  for (const auto step : {std::chrono::hours(-1), std::chrono::hours(-48)}) {
    const std::string key = "back-" + std::to_string(-step.count());
    const RequestKey request{"shop/a", key, "print-1"};
    begin(request);
    under_test_->set_clock(step);
    const RequestTicket repeat = begin(request, true);
    EXPECT_EQ(repeat.state, RequestState::running) << "its holder may be at work";
    EXPECT_LE(repeat.retry_after, kLease);
    under_test_->elapse(2 * kLease);
    EXPECT_EQ(state(request), RequestState::unknown) << key;
    EXPECT_EQ(begin(request, true).state, RequestState::first) << key;
  }
}

TEST_P(Requests, ARequestThatRunsIsFinishedWhenTheClockIsSetBack) {
  for (const auto step : {std::chrono::hours(-1), std::chrono::hours(-48)}) {
    const std::string key = "runs-" + std::to_string(-step.count());
    const RequestKey request{"shop/a", key, "print-1"};
    const RequestTicket first = begin(request);
    under_test_->set_clock(step);
    EXPECT_EQ(begin(request, true).state, RequestState::running) << key;
    EXPECT_TRUE(finish(request, first.token)) << key;
  }
}

// A lease may end early then; a late holder is told.
TEST_P(Requests, OneHolderFinishesWhenTheClockIsSetAhead) {
  for (const auto step : {std::chrono::hours(1), std::chrono::hours(48)}) {
    const std::string key = "ahead-" + std::to_string(step.count());
    const RequestKey request{"shop/a", key, "print-1"};
    const RequestTicket first = begin(request);
    under_test_->set_clock(step);
    const RequestTicket next = begin(request, true);
    const bool is_taken = next.state == RequestState::first;
    EXPECT_EQ(finish(request, first.token), !is_taken) << key;
    EXPECT_EQ(is_taken && finish(request, next.token), is_taken) << key;
  }
}

TEST_P(Requests, WithRetriesTheNextTakesOverAndTheLateOneIsFenced) {
  const RequestTicket zombie = begin(kOne);
  under_test_->elapse(2 * kLease);
  const RequestTicket next = begin(kOne, true);
  ASSERT_EQ(next.state, RequestState::first);
  EXPECT_EQ(next.attempts, 2U);
  EXPECT_FALSE(finish(kOne, zombie.token, {500, "", "late"}));
  EXPECT_FALSE(store_->release(kOne, zombie.token).value());
  EXPECT_FALSE(store_->abandon(kOne, zombie.token).value());
  EXPECT_EQ(state(kOne), RequestState::running);
  EXPECT_TRUE(finish(kOne, next.token));
  EXPECT_FALSE(finish(kOne, zombie.token, {500, "", "late"}));
  EXPECT_EQ(begin(kOne).response.status, 200);
}

TEST_P(Requests, GivenUpEndsTheLeaseAtOnce) {
  const RequestTicket first = begin(kOne);
  ASSERT_TRUE(store_->abandon(kOne, first.token).value());
  EXPECT_EQ(state(kOne), RequestState::unknown);
  EXPECT_EQ(begin(kOne, true).state, RequestState::first);
}

TEST_P(Requests, ReleasedRunsAgainAndFinishedIsNeverReleased) {
  const RequestTicket first = begin(kOne);
  ASSERT_TRUE(store_->release(kOne, first.token).value());
  EXPECT_FALSE(store_->release(kOne, first.token).value());
  const RequestTicket second = begin(kChanged);
  ASSERT_EQ(second.state, RequestState::first);
  ASSERT_TRUE(finish(kChanged, second.token));
  EXPECT_FALSE(store_->release(kChanged, second.token).value());
  EXPECT_FALSE(store_->abandon(kChanged, second.token).value());
  EXPECT_EQ(state(kChanged), RequestState::finished);
}

TEST_P(Requests, TheSameCallAgainIsHarmless) {
  const EventId token = new_event_id();
  ASSERT_EQ(begin(kOne, false, token).state, RequestState::first);
  const RequestTicket again = begin(kOne, false, token);
  EXPECT_EQ(again.state, RequestState::first);
  EXPECT_EQ(again.attempts, 1U);
  EXPECT_EQ(again.token, token);
  EXPECT_TRUE(finish(kOne, token));
  EXPECT_TRUE(finish(kOne, token, {500, "", "other"}));
  EXPECT_EQ(begin(kOne).response.status, 200) << "the first answer holds";
  EXPECT_EQ(begin(kOne, false, token).state, RequestState::finished);
}

TEST_P(Requests, ATokenThatHasExpiredTakesNothing) {
  const EventId token = new_event_id();
  ASSERT_EQ(begin(kOne, false, token).state, RequestState::first);
  ASSERT_TRUE(store_->abandon(kOne, token).value());
  under_test_->elapse(2 * kKeep);
  const auto late = store_->begin(kOne, {kLease, kKeep, false}, token);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::rejected);
  EXPECT_NE(late.error().text.find("is used up"), std::string::npos) << late.error().text;
  EXPECT_EQ(state(kOne), RequestState::first) << "a new token begins it again";
}

TEST_P(Requests, WhatIsExpiredIsForgottenUnlessItRuns) {
  ASSERT_TRUE(finish(kOne, begin(kOne).token));
  const RequestKey unknown{"shop/a", "key-2", "print"};
  const RequestTicket lost = begin(unknown);
  ASSERT_TRUE(store_->abandon(unknown, lost.token).value());
  under_test_->elapse(kKeep - kLease);
  EXPECT_EQ(state(kOne), RequestState::finished);
  EXPECT_EQ(state(unknown), RequestState::unknown);
  under_test_->elapse(2 * kLease);
  const RequestTicket fresh = begin(kChanged);
  EXPECT_EQ(fresh.state, RequestState::first);
  EXPECT_EQ(fresh.attempts, 1U);
  EXPECT_EQ(state(unknown), RequestState::first);
  EXPECT_FALSE(finish(unknown, lost.token));
}

TEST_P(Requests, APruneTakesWhatIsExpiredInBoundedSteps) {
  for (int i = 0; i < 5; ++i) {
    const std::string key = "old-" + std::to_string(i);
    const RequestKey request{"shop", key, "print"};
    const RequestTicket first = begin(request);
    if (i > 0) {
      ASSERT_TRUE(finish(request, first.token));
    }
  }
  EXPECT_EQ(under_test_->prune(100), 0U);
  under_test_->elapse(2 * kKeep);
  ASSERT_EQ(state(kOne), RequestState::first);
  EXPECT_EQ(under_test_->prune(3), 3U);
  EXPECT_EQ(under_test_->prune(100), 2U);
  EXPECT_EQ(under_test_->list({}).size(), 1U);
}

TEST_P(Requests, OneOfManyIsFirst) {
  constexpr int kThreads = 8;
  constexpr int kKeys = 25;
  std::vector<std::atomic<int>> firsts(kKeys);
  std::atomic<int> other{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        const auto store = open();
        for (int k = 0; k < kKeys; ++k) {
          const std::string key = "many-" + std::to_string(k);
          const RequestKey request{"shop", key, "print"};
          const auto ticket = store->begin(request, {kLease, kKeep, true}, new_event_id());
          ASSERT_TRUE(ticket) << ticket.error().text;
          if (ticket->state == RequestState::first) {
            ++firsts[static_cast<std::size_t>(k)];
            ASSERT_TRUE(store->finish(request, ticket->token, {200, "", key}).value());
          } else if (ticket->state != RequestState::running &&
                     !(ticket->state == RequestState::finished && ticket->response.body == key)) {
            ++other;
          }
        }
      });
    }
  }
  for (const auto& count : firsts) EXPECT_EQ(count.load(), 1);
  EXPECT_EQ(other.load(), 0);
}

TEST_P(Requests, OneOfManyTakesOverWhatIsUnknown) {
  constexpr int kThreads = 8;
  constexpr int kKeys = 25;
  std::vector<std::string> keys;
  for (int k = 0; k < kKeys; ++k) {
    keys.push_back("lost-" + std::to_string(k));
    const RequestKey request{"shop", keys.back(), "print"};
    ASSERT_TRUE(store_->abandon(request, begin(request).token).value());
  }
  std::vector<std::atomic<int>> firsts(kKeys);
  {
    std::barrier together(kThreads);
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        const auto store = open();
        for (std::size_t k = 0; k < keys.size(); ++k) {
          together.arrive_and_wait();
          const auto ticket =
              store->begin({"shop", keys[k], "print"}, {kLease, kKeep, true}, new_event_id());
          EXPECT_TRUE(ticket) << (ticket ? "" : ticket.error().text);
          if (ticket && ticket->state == RequestState::first) ++firsts[k];
        }
      });
    }
  }
  for (const auto& count : firsts) EXPECT_EQ(count.load(), 1);
}

TEST_P(Requests, InTheServicesTransactionItExistsWhenThatCommits) {
  const auto service = under_test_->connect();
  service->begin();
  auto ticket = service->begin_request(kOne, kKeep);
  ASSERT_TRUE(ticket) << ticket.error().text;
  ASSERT_EQ(ticket->state, RequestState::first);
  ASSERT_TRUE(service->finish_request(kOne, ticket->token, {200, "", "lost"}));
  service->rollback();
  service->begin();
  ticket = service->begin_request(kOne, kKeep);
  ASSERT_EQ(ticket->state, RequestState::first) << "nothing was left behind";
  ASSERT_TRUE(service->finish_request(kOne, ticket->token, {200, "", "kept"}));
  service->commit();
  EXPECT_EQ(begin(kOne).response.body, "kept");
  service->begin();
  EXPECT_EQ(service->begin_request(kOne, kKeep)->response.body, "kept");
  EXPECT_EQ(service->begin_request(kChanged, kKeep)->state, RequestState::mismatch);
  service->commit();
}

TEST_P(Requests, ATransactionThatForgetsToFinishLeavesItUnknown) {
  const auto service = under_test_->connect();
  service->begin();
  ASSERT_EQ(service->begin_request(kOne, kKeep)->state, RequestState::first);
  service->commit();
  EXPECT_EQ(state(kOne), RequestState::unknown);
}

TEST_P(Requests, AServiceThatLostItsRequestIsToldToRollBack) {
  const RequestTicket zombie = begin(kOne);
  under_test_->elapse(2 * kLease);
  ASSERT_EQ(begin(kOne, true).state, RequestState::first);
  const auto service = under_test_->connect();
  service->begin();
  const Status finished = service->finish_request(kOne, zombie.token, {200, "", ""});
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, Errc::stopped);
  service->rollback();
}

TEST_P(Requests, WithoutATransactionBeginIsRefused) {
  const auto service = under_test_->connect();
  const auto ticket = service->begin_request(kOne, kKeep);
  ASSERT_FALSE(ticket);
  EXPECT_EQ(ticket.error().code, Errc::rejected);
}

TEST_P(Requests, AnOperatorSeesAndForgetsWhatIsNotRunning) {
  const RequestTicket first = begin(kOne);
  const RequestKey running{"shop/a", "key-2", "print"};
  begin(running);
  ASSERT_TRUE(store_->abandon(kOne, first.token).value());
  EXPECT_EQ(under_test_->list({}).size(), 2U);
  const auto unknown = under_test_->list({.state = RequestState::unknown});
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_EQ(unknown[0].scope, "shop/a");
  EXPECT_EQ(unknown[0].key, "key-1");
  EXPECT_EQ(unknown[0].state, RequestState::unknown);
  EXPECT_EQ(unknown[0].attempts, 1U);
  EXPECT_EQ(under_test_->list({.state = RequestState::running}).size(), 1U);
  const std::string reason = "looked at the effect";
  EXPECT_FALSE(under_test_->forget(running, reason).value());
  EXPECT_TRUE(under_test_->forget(kOne, reason).value());
  EXPECT_FALSE(under_test_->forget(kOne, reason).value());
  EXPECT_EQ(state(kOne), RequestState::first);
  EXPECT_EQ(state(running), RequestState::running);
}

TEST_P(Requests, NothingIsForgottenWithoutAReason) {
  ASSERT_TRUE(store_->abandon(kOne, begin(kOne).token).value());
  for (const char* blank : {"", " ", "\t\n"}) {
    const Result<bool> forgotten = under_test_->forget(kOne, blank);
    ASSERT_FALSE(forgotten);
    EXPECT_EQ(forgotten.error().code, Errc::rejected);
  }
  EXPECT_EQ(under_test_->list({.state = RequestState::unknown}).size(), 1U);
}

TEST_P(Requests, WrongTermsAreRefused) {
  const auto ticket = store_->begin(kOne, {kKeep, kLease, false}, new_event_id());
  ASSERT_FALSE(ticket);
  EXPECT_EQ(ticket.error().code, Errc::rejected);
  const std::string long_key(256, 'k');
  const auto long_ticket =
      store_->begin({"shop", long_key, "print"}, {kLease, kKeep, false}, new_event_id());
  ASSERT_FALSE(long_ticket);
  EXPECT_EQ(long_ticket.error().code, Errc::rejected);
}

}  // namespace dovetail::conformance
