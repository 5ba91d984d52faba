#include "sqlite/inbox/mailbox.h"

#include "sqlite/outbox/source.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

class Mailbox : public ::testing::Test {
 protected:
  std::vector<Fate> deliver(Sink& sink, std::vector<const Event*> events) {
    EXPECT_TRUE(sink.submit(events));
    return collect(sink, events.size());
  }
  std::vector<Fate> collect(Sink& sink, std::size_t count) {
    outcomes.assign(count, Outcome{});
    const Result<bool> collected = sink.collect(outcomes, Duration{0});
    EXPECT_TRUE(collected && *collected) << text_of(collected);
    std::vector<Fate> fates;
    for (const Outcome& outcome : outcomes) fates.push_back(outcome.fate);
    return fates;
  }
  using Fates = std::vector<Fate>;

  TestFile file;
  Application application{file.path};
  std::vector<Outcome> outcomes;
};

TEST_F(Mailbox, KeepsWhatIsDeliveredOnce) {
  MailboxSink sink(MailboxOptions{file.path}, system_clock());
  ASSERT_TRUE(sink.open());
  const Event a = make_event("a", 1, "orders"), b = make_event("b", 2, "orders");
  EXPECT_EQ(deliver(sink, {&a, &b}), (Fates{Fate::confirmed, Fate::confirmed}));
  EXPECT_EQ(deliver(sink, {&b}), Fates{Fate::duplicate});
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_mailbox"), 2);
}

TEST_F(Mailbox, SeveralBatchesMayBeInFlight) {
  MailboxSink sink(MailboxOptions{file.path}, system_clock());
  ASSERT_TRUE(sink.open());
  const Event a = make_event("a", 1), b = make_event("b", 2);
  const Event* const one[] = {&a};
  const Event* const two[] = {&b};
  ASSERT_TRUE(sink.submit(one));
  ASSERT_TRUE(sink.submit(two));
  EXPECT_EQ(collect(sink, 1), Fates{Fate::confirmed});
  EXPECT_EQ(collect(sink, 1), Fates{Fate::confirmed});
  EXPECT_FALSE(sink.collect({}, Duration{0}).value());
}

TEST_F(Mailbox, AnUnknownTopicIsRejectedWithTheListOfThoseAllowed) {
  MailboxSink sink(MailboxOptions{file.path, {"orders", "payments"}}, system_clock());
  ASSERT_TRUE(sink.open());
  const Event good = make_event("a", 1, "orders"), bad = make_event("b", 2, "gossip");
  EXPECT_EQ(deliver(sink, {&good, &bad}), (Fates{Fate::confirmed, Fate::rejected}));
  EXPECT_TRUE(contains(outcomes[1].reason, "gossip")) << outcomes[1].reason;
  EXPECT_TRUE(contains(outcomes[1].reason, "orders, payments")) << outcomes[1].reason;
}

TEST_F(Mailbox, NothingOfAKeyOvertakesARejectedEvent) {
  MailboxSink sink(MailboxOptions{file.path, {"orders"}}, system_clock());
  ASSERT_TRUE(sink.open());
  const Event bad = make_event("a", 1, "gossip"), behind = make_event("a", 2, "orders"),
              later = make_event("a", 3, "orders"), other = make_event("b", 4, "orders");
  const Event* const one[] = {&bad, &behind};
  const Event* const two[] = {&later, &other};
  ASSERT_TRUE(sink.submit(one));
  ASSERT_TRUE(sink.submit(two));
  EXPECT_EQ(collect(sink, 2), (Fates{Fate::rejected, Fate::again}));
  EXPECT_EQ(collect(sink, 2), (Fates{Fate::again, Fate::confirmed}));
  EXPECT_EQ(deliver(sink, {&behind}), Fates{Fate::confirmed})
      << "submitted after the failure was known";
}

TEST_F(Mailbox, WhatIsTooLargeIsRejectedAlone) {
  MailboxSink sink(MailboxOptions{file.path, {}, 10}, system_clock());
  ASSERT_TRUE(sink.open());
  Event large = make_event("a", 1);
  large.payload = "0123456789x";
  const Event small = make_event("b", 2);
  EXPECT_EQ(deliver(sink, {&large, &small}), (Fates{Fate::rejected, Fate::confirmed}));
}

TEST_F(Mailbox, WhatTheTableRefusesIsRejectedAndNeverTakenForADuplicate) {
  MailboxSink sink(MailboxOptions{file.path}, system_clock());
  ASSERT_TRUE(sink.open());
  Event empty = make_event("a", 1);
  empty.payload = "";
  const Event good = make_event("b", 2);
  EXPECT_EQ(deliver(sink, {&empty, &good}), (Fates{Fate::rejected, Fate::confirmed}));
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_mailbox"), 1);
}

TEST_F(Mailbox, AMissingOrReadOnlyFileIsUnavailable) {
  MailboxSink missing(MailboxOptions{file.directory() + "/missing.db"}, system_clock());
  EXPECT_TRUE(failed_with(missing.open(), Errc::unavailable));
  MailboxSink sink(MailboxOptions{"file:" + file.path + "?mode=ro"}, system_clock());
  ASSERT_TRUE(sink.open());
  const Event event = make_event("a", 1);
  const Event* const one[] = {&event};
  ASSERT_TRUE(sink.submit(one));
  Outcome outcome;
  const Result<bool> collected = sink.collect({&outcome, 1}, Duration{0});
  EXPECT_TRUE(failed_with(collected, Errc::unavailable)) << text_of(collected);
}

TEST_F(Mailbox, IsReadByItsOwnReader) {
  MailboxSink sink(MailboxOptions{file.path}, system_clock());
  ASSERT_TRUE(sink.open());
  const Event a = make_event("a", 55, "orders");
  EXPECT_EQ(deliver(sink, {&a}), Fates{Fate::confirmed});
  Reader reader{file.path, "billing", SourceKind::mailbox, {"orders"}};
  SqliteSource source(reader, system_clock());
  ASSERT_TRUE(source.open());
  Batch batch;
  ASSERT_TRUE(source.read(batch, {}, {}));
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch.events()[0].id, a.id);
  EXPECT_EQ(batch.events()[0].position, 1) << "positions are the mailbox's own";
}

TEST(MailboxIds, TheSameIdWithAnotherPayloadIsNeverTakenForADuplicate) {
  TestFile file;
  MailboxSink sink({.path = file.path}, system_clock());
  ASSERT_TRUE(sink.open());
  const Event original = make_event("k", 1);
  Event other = original;
  other.payload = "another";
  const auto fate_of = [&](const Event& event) {
    const Event* const one[] = {&event};
    std::vector<Outcome> outcomes(1);
    EXPECT_TRUE(sink.submit(one));
    EXPECT_TRUE(sink.collect(outcomes, Duration{0}));
    return outcomes[0].fate;
  };
  EXPECT_EQ(fate_of(original), Fate::confirmed);
  EXPECT_EQ(fate_of(other), Fate::rejected);
  EXPECT_EQ(fate_of(original), Fate::duplicate);
}

}  // namespace
}  // namespace dovetail::sqlite
