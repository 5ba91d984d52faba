// The same for sources: a flow of events goes through the broker into an inbox. Meanwhile the
// connection is cut, the broker is killed or frozen, and consumers replace each other. At the
// end every event is applied once, and in order along each key if the adapter keeps the
// order.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/inbox/inbox.h"
#include "memory/inbox_store.h"
#include "proofs/brokers/outage_suite.h"

namespace dovetail::conformance {

// What the handlers of all consumers did, in commit order. Any thread.
class Effects {
 public:
  void add(StoredEvent event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  std::vector<StoredEvent> all() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return events_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<StoredEvent> events_;
};

// A relay from a source into the inbox that all consumers of a test share.
class Consumer {
 public:
  Consumer(std::unique_ptr<Source> source, MemoryInboxDatabase& database, Effects& effects,
           RelayOptions options)
      : source_(std::move(source)),
        store_(
            database, "test",
            [&effects](const Event& event, MemoryTransaction& transaction) {
              transaction.on_commit([&effects, copy = StoredEvent(event)] { effects.add(copy); });
              return Status{};
            }),
        relay_(*source_, inbox_, reader_, options) {}

  void stop() {
    relay_.stop();
    EXPECT_TRUE(inbox_.close());
  }
  const BesideTest& relay() const { return relay_; }
  std::uint64_t parked() const { return reader_.parked().size() + relay_.given_up(); }

 private:
  std::unique_ptr<Source> source_;
  MemoryReader reader_;  // for parked events
  MemoryInboxStore store_;
  Inbox inbox_{store_, {}};
  BesideTest relay_;
};

class SourceOutageSuite : public OutageFixture {
 protected:
  void SetUp() override {
    OutageFixture::SetUp();
    if (HasFatalFailure()) return;
    if (broker_->make_source(broker_->port(), "first") == nullptr)
      GTEST_SKIP() << "this broker is no source";
    flow_ = std::make_unique<Flow>(broker_->make_sink(broker_->port()), outage_options());
  }

  Consumer& consume(int port, const std::string& name) {
    consumers_.push_back(std::make_unique<Consumer>(broker_->make_source(port, name), database_,
                                                    effects_, outage_options()));
    return *consumers_.back();
  }
  // Waits until that many more are applied: a consumer has recovered.
  bool goes_on(std::size_t events = 100) {
    const std::size_t from = effects_.count();
    return eventually([&] { return effects_.count() >= from + events; });
  }
  std::string logs() const {
    std::string all = "publisher:\n" + flow_->relay().log();
    for (const auto& consumer : consumers_) all += "consumer:\n" + consumer->relay().log();
    return all;
  }
  // Events that a consumer still gets although everything is applied and settled.
  std::uint64_t left_over(const std::string& name) {
    const auto source = broker_->make_source(broker_->port(), name);
    EXPECT_TRUE(source->open());
    Batch batch;
    EXPECT_TRUE(source->read(batch, Limits{1000, 4 << 20, seconds(1)}, {}));
    return batch.size();
  }

  void finish(const std::string& what, bool in_order) {
    const bool resumed = goes_on();  // after the last fault
    const bool delivered = flow_->finish() && resumed;
    const std::uint64_t published = flow_->ledger.judge({}).published;
    const bool all = delivered && eventually([&] { return effects_.count() >= published; });
    std::uint64_t sessions = 0;
    std::uint64_t parked = 0;
    for (const auto& consumer : consumers_) {
      consumer->stop();
      sessions += consumer->relay().metrics.session_errors;
      parked += consumer->parked();
    }
    const Verdict verdict = flow_->ledger.judge(effects_.all());
    const std::uint64_t left = left_over("first");
    live::claim(all && verdict.lost == 0 && verdict.duplicates == 0 && verdict.changed == 0 &&
                    verdict.unknown == 0 && (!in_order || verdict.inverted == 0) && parked == 0 &&
                    left == 0,
                "%s as a source, %s: %lu events, %lu lost, %lu applied twice, %lu inverted%s, %lu "
                "changed, %lu parked, %lu left over, %lu duplicates caught, %lu reconnects%s",
                GetParam().name.c_str(), what.c_str(), verdict.published, verdict.lost,
                verdict.duplicates, verdict.inverted, in_order ? "" : " (not promised)",
                verdict.changed, parked, left, database_.duplicates("test"), sessions,
                resumed ? "" : "; it did NOT go on");
    if (HasFailure()) std::printf("%s", logs().c_str());
  }
  bool keeps_order() const { return broker_->abilities().source_keeps_order; }

  MemoryInboxDatabase database_;
  Effects effects_;
  std::unique_ptr<Flow> flow_;
  std::vector<std::unique_ptr<Consumer>> consumers_;
};

TEST_P(SourceOutageSuite, ConnectionsCutInTheMiddleOfDeliveries) {
  const auto proxy = broker_->make_proxy();
  consume(proxy->port(), "first");
  const std::uint64_t cuts = times(8, 150);
  for (std::uint64_t i = 0; i < cuts; ++i) {
    ASSERT_TRUE(goes_on(i % 50)) << logs();
    disturb(*proxy, i);
  }
  finish(std::to_string(cuts) + " cuts, " + std::to_string(proxy->counters().losses) +
             " times answers lost",
         keeps_order());
}

TEST_P(SourceOutageSuite, AServerKilledAndStartedAgainUnderLoad) {
  if (!broker_->abilities().can_kill || !broker_->abilities().durable)
    GTEST_SKIP() << "nothing outlives this server";
  consume(broker_->port(), "first");
  const std::uint64_t kills = times(1, 10);
  for (std::uint64_t i = 0; i < kills; ++i) {
    ASSERT_TRUE(goes_on()) << logs();
    kill_and_start_again();
  }
  finish(std::to_string(kills) + " times SIGKILL", keeps_order());
}

TEST_P(SourceOutageSuite, AServerFrozenUnderLoad) {
  if (!broker_->abilities().can_kill) GTEST_SKIP() << "this server cannot be frozen";
  consume(broker_->port(), "first");
  ASSERT_TRUE(goes_on()) << logs();
  freeze(seconds(times(2, 20)));
  finish("SIGSTOP for " + std::to_string(times(2, 20)) + " s", keeps_order());
}

TEST_P(SourceOutageSuite, AnotherConsumerTakesOverAndTheFirstComesBack) {
  const auto first = broker_->make_proxy();
  consume(first->port(), "first");
  ASSERT_TRUE(goes_on(300)) << logs();
  first->refuse(true);
  first->cut();
  consume(broker_->port(), "second");
  ASSERT_TRUE(goes_on(300)) << logs();
  first->refuse(false);
  ASSERT_TRUE(goes_on(300)) << logs();
  for (std::uint64_t i = 0; i < times(0, 10); ++i) {
    first->refuse(true);
    first->cut();
    ASSERT_TRUE(goes_on(1000)) << logs();
    first->refuse(false);
    ASSERT_TRUE(goes_on(1000)) << logs();
  }
  finish("two consumers, one cut off", broker_->abilities().takeover_keeps_order);
}

}  // namespace dovetail::conformance
