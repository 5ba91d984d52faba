// The outage suite finds faults: sinks that are broken on purpose do not pass its
// judge.
#include <deque>

#include "kit/ids.h"
#include "memory/sink.h"
#include "proofs/brokers/outage_source_suite.h"

namespace dovetail::conformance {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OutageSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SourceOutageSuite);

namespace {

// Passes everything to a correct sink.
class Wrapper : public Sink {
 public:
  explicit Wrapper(Sink& inner) : inner_(inner) {}
  Status open() override { return inner_.open(); }
  Status submit(Events events) override { return inner_.submit(events); }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    return inner_.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return inner_.keeps_order_on_failure(); }

 protected:
  Sink& inner_;
};

// Confirms every hundredth event without sending it.
class Forgetful final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  Status open() override {
    sent_.clear();
    return inner_.open();
  }
  Status submit(Events events) override {
    std::vector<const Event*> kept;
    std::vector<bool>& sent = sent_.emplace_back();
    for (const Event* event : events) {
      sent.push_back(++count_ % 100 != 0);
      if (sent.back()) kept.push_back(event);
    }
    return inner_.submit(kept);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    std::vector<Outcome> inner(sent_.empty() ? 0 : count_of(sent_.front()));
    const Result<bool> known = inner_.collect(inner, timeout);
    if (!known || !*known) return known;
    std::size_t at = 0;
    for (std::size_t i = 0; i < outcomes.size(); ++i)
      outcomes[i] = sent_.front()[i] ? inner[at++] : Outcome{Fate::confirmed};
    sent_.pop_front();
    return true;
  }

 private:
  static std::size_t count_of(const std::vector<bool>& sent) {
    return static_cast<std::size_t>(std::count(sent.begin(), sent.end(), true));
  }
  std::deque<std::vector<bool>> sent_;
  std::uint64_t count_ = 0;
};

// Sends each batch in reverse order.
class Backward final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  Status submit(Events events) override {
    const std::vector<const Event*> turned(events.rbegin(), events.rend());
    return inner_.submit(turned);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    const Result<bool> known = inner_.collect(outcomes, timeout);
    if (known && *known) std::reverse(outcomes.begin(), outcomes.end());
    return known;
  }
};

// Sends the same event twice.
class Stuttering final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  Status submit(Events events) override {
    std::vector<const Event*> twice;
    for (const Event* event : events) twice.insert(twice.end(), 2, event);
    return inner_.submit(twice);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    std::vector<Outcome> twice(2 * outcomes.size());
    const Result<bool> known = inner_.collect(twice, timeout);
    for (std::size_t i = 0; i < outcomes.size(); ++i) outcomes[i] = twice[2 * i];
    return known;
  }
};

// Loses the quotation marks of payloads.
class Garbling final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  Status submit(Events events) override {
    std::vector<const Event*> changed;
    for (const Event* event : events) {
      Batch& batch = batches_.emplace_back();
      Event& copy = batch.append(*event);
      copy.payload = copy.payload.substr(1);
      changed.push_back(&copy);
    }
    return inner_.submit(changed);
  }

 private:
  std::deque<Batch> batches_;
};

class OutageJudge : public testing::Test {
 protected:
  // The judge's verdict about a sink.
  template <class Broken>
  Verdict judge() {
    Flow flow(std::make_unique<Broken>(memory_), outage_options());
    EXPECT_TRUE(flow.goes_on(500));
    EXPECT_TRUE(flow.finish()) << flow.relay().log();
    parked_ = flow.parked();
    return flow.ledger.judge(memory_.received());
  }
  MemorySink memory_{{false, true}};
  std::uint64_t parked_ = 0;
};

TEST_F(OutageJudge, AcceptsASinkThatIsInOrder) {
  const Verdict verdict = judge<Wrapper>();
  EXPECT_GE(verdict.published, 500U);
  EXPECT_EQ(verdict.lost, 0U);
  EXPECT_EQ(verdict.inverted, 0U);
  EXPECT_EQ(verdict.changed, 0U);
  EXPECT_EQ(verdict.unknown, 0U);
  EXPECT_EQ(verdict.duplicates, 0U);
  EXPECT_EQ(parked_, 0U);
}

TEST_F(OutageJudge, FindsWhatWasConfirmedAndNeverSent) {
  const Verdict verdict = judge<Forgetful>();
  EXPECT_EQ(verdict.lost, verdict.published / 100);
  EXPECT_EQ(verdict.inverted, 0U);
}

TEST_F(OutageJudge, FindsWhatWasSentInAnotherOrder) {
  const Verdict verdict = judge<Backward>();
  EXPECT_EQ(verdict.lost, 0U);
  EXPECT_GT(verdict.inverted, 0U);
}

TEST_F(OutageJudge, CountsDuplicatesAndForgivesThem) {
  const Verdict verdict = judge<Stuttering>();
  EXPECT_EQ(verdict.duplicates, verdict.published);
  EXPECT_EQ(verdict.lost, 0U);
  EXPECT_EQ(verdict.inverted, 0U);
}

TEST_F(OutageJudge, FindsWhatArrivedWithOtherBytes) {
  const Verdict verdict = judge<Garbling>();
  EXPECT_EQ(verdict.changed, verdict.published);
}

// A source that loses its connection, with everything read on it, at some of its first reads. If it
// is careless, that was acknowledged already.
class Fragile final : public Source {
 public:
  Fragile(MemoryLog& log, MemoryReader& reader, bool careless)
      : inner_(log, reader), careless_(careless) {}
  Status open() override { return inner_.open(); }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    DOVETAIL_TRY(inner_.read(out, limits, stop));
    const std::vector<Settled> fates(out.size(), Settled::delivered);
    if (careless_) DOVETAIL_TRY(inner_.settle(out, fates));
    if (careless_) DOVETAIL_TRY(inner_.flush());
    if (++reads_ % 3 == 0 && reads_ < 12) return fail(Errc::unavailable, "cut on purpose");
    return {};
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return careless_ ? Status{} : inner_.settle(batch, fates);
  }
  Status flush() override { return inner_.flush(); }

 private:
  MemorySource inner_;
  const bool careless_;
  int reads_ = 0;
};

class OutageJudgeOfSources : public OutageJudge {
 protected:
  Verdict judge_source(bool careless) {
    Flow flow(std::make_unique<Wrapper>(memory_), outage_options());
    EXPECT_TRUE(flow.goes_on(500));
    EXPECT_TRUE(flow.finish());
    MemoryLog log;
    for (const StoredEvent& event : memory_.received()) log.append(event.view());
    MemoryReader progress;
    MemoryInboxDatabase database;
    Effects effects;
    RelayOptions options = outage_options();
    options.batch_events_max = 50;
    Consumer consumer(std::make_unique<Fragile>(log, progress, careless), database, effects,
                      options);
    EXPECT_TRUE(eventually([&] { return progress.settled() == log.last_position(); }));
    consumer.stop();
    return flow.ledger.judge(effects.all());
  }
};

TEST_F(OutageJudgeOfSources, AcceptsASourceThatIsInOrder) {
  const Verdict verdict = judge_source(false);
  EXPECT_EQ(verdict.lost, 0U);
  EXPECT_EQ(verdict.inverted, 0U);
  EXPECT_EQ(verdict.duplicates, 0U);
}

TEST_F(OutageJudgeOfSources, FindsWhatWasAcknowledgedBeforeItWasApplied) {
  EXPECT_GT(judge_source(true).lost, 0U);
}

TEST_F(OutageJudge, FindsWhatNobodyPublished) {
  StoredEvent stranger;
  stranger.id = numbered_id(7);
  EXPECT_EQ(Ledger().judge({stranger}).unknown, 1U);
}

TEST_F(OutageJudge, FindsWhatWasParked) {
  memory_.decide_by([](const Event& event) {
    return event.aggregate_version == 3 && event.aggregate_id == "key-7"
               ? Outcome{Fate::rejected, 0, "not this one"}
               : Outcome{Fate::confirmed};
  });
  EXPECT_GT(judge<Wrapper>().lost, 0U);
  EXPECT_GT(parked_, 0U);
}

}  // namespace
}  // namespace dovetail::conformance
