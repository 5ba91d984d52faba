#include <atomic>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include "core/relay/relay.h"
#include "host/host.h"
#include "servers/standstill.h"
#include "sqlite/inbox/mailbox.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/operate/admin.h"
#include "sqlite/outbox/source.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;

Status record(sqlite3* transaction, const Event& event) {
  Result<Statement> insert =
      Statement::prepare(transaction, "INSERT INTO effect (event, payload) VALUES (?1, ?2)");
  if (!insert) return fail(insert.error());
  return insert->bind_id(1, event.id).bind_text(2, event.payload).run();
}

class ConsumerOfAnOutbox : public ::testing::Test {
 protected:
  ConsumerOfAnOutbox() {
    application.run("CREATE TABLE effect (n INTEGER PRIMARY KEY, event BLOB, payload TEXT)");
    options.database = service.path;
    options.name = "billing";
    options.from = publisher.path;
    options.retry_base = 1ms;
    options.retry_cap = 5ms;
  }
  std::unique_ptr<Consumer> open(Consumer::Handler handler) {
    Result<std::unique_ptr<Consumer>> consumer = Consumer::open(options, std::move(handler));
    EXPECT_TRUE(consumer) << text_of(consumer);
    return consumer ? std::move(*consumer) : nullptr;
  }
  // Runs the consumer until the condition holds, then stops it cleanly.
  void run_until(Consumer& consumer, const std::function<bool()>& holds) {
    std::jthread thread([&](std::stop_token stop) {
      const Status ended = consumer.run(stop);
      EXPECT_TRUE(ended) << text_of(ended);
    });
    EXPECT_TRUE(eventually(holds));
  }
  std::int64_t effects() { return application.number("SELECT count(*) FROM effect"); }

  TestFile publisher;
  TestFile service;
  Application source{publisher.path};
  Application application{service.path};
  ConsumerOptions options;
};

TEST_F(ConsumerOfAnOutbox, AppliesEachEventOnceInOrder) {
  for (int i = 0; i < 50; ++i) source.publish_one("k", std::to_string(i));
  auto consumer = open(record);
  run_until(*consumer, [&] { return effects() == 50; });
  EXPECT_EQ(consumer->counts().applied, 50u);
  EXPECT_EQ(application.number("SELECT count(*) FROM effect WHERE payload = n - 1"), 50);
  EXPECT_EQ(source.number("SELECT passed_seq FROM dovetail_relay WHERE relay='billing'"), 50);
}

TEST_F(ConsumerOfAnOutbox, GoesOnWhereItStoppedAndKnowsWhatIsRepeated) {
  for (int i = 0; i < 10; ++i) source.publish_one("k");
  run_until(*open(record), [&] { return effects() == 10; });
  source.run("UPDATE dovetail_relay SET passed_seq = 4");  // as if the last progress were lost
  source.publish_one("k");
  auto again = open(record);
  run_until(*again, [&] { return effects() == 11; });
  EXPECT_EQ(again->counts().applied, 1u);
  EXPECT_EQ(again->counts().duplicates, 6u);
}

TEST_F(ConsumerOfAnOutbox, AStopInGoodOrderIsNoDeath) {
  source.publish_one("k");
  auto consumer = open(record);
  run_until(*consumer, [&] {
    return effects() == 1 && application.number("SELECT clean FROM dovetail_consumer") == 0;
  });
  EXPECT_EQ(application.number("SELECT clean FROM dovetail_consumer"), 1);
}

TEST_F(ConsumerOfAnOutbox, SeesWhatIsPublishedWhileItRuns) {
  auto consumer = open(record);
  std::atomic<bool> published = false;
  run_until(*consumer, [&] {
    if (!published.exchange(true)) source.publish_one("k");
    return effects() == 1;
  });
}

// Handlers that take longer than the lease for a batch of events.
TEST_F(ConsumerOfAnOutbox, ASlowHandlerCostsNoLeaseAndNothingIsAppliedTwice) {
  const servers::Standstill standstill;
  const bool is_long = std::getenv("DOVETAIL_CHAOS") != nullptr;
  const auto takes = is_long ? 50ms : 10ms;
  const int events = is_long ? 1000 : 200;
  options.lease_term = is_long ? 10s : 500ms;
  options.batch_events_max = 500;
  for (int i = 0; i < events; ++i) source.publish_one("k" + std::to_string(i % 10));
  auto consumer = open([&](sqlite3* transaction, const Event& event) -> Status {
    std::this_thread::sleep_for(takes);
    return record(transaction, event);
  });
  run_until(*consumer, [&] {
    return source.number("SELECT passed_seq FROM dovetail_relay WHERE relay='billing'") == events;
  });
  EXPECT_EQ(effects(), events);
  if (standstill.is_below(options.lease_term / 3)) {
    EXPECT_EQ(consumer->counts().duplicates, 0U);
    EXPECT_EQ(source.number("SELECT epoch FROM dovetail_relay WHERE relay='billing'"), 1)
        << "the lease was never lost";
  }
  if (is_long)
    std::printf("claim %s handler of 50 ms on SQLite, batches of 500, lease of 10 s: %d events\n",
                HasFailure() ? "FAILED" : "ok    ", events);
}

TEST_F(ConsumerOfAnOutbox, AFailingEventIsParkedAndOtherKeysFlow) {
  source.publish_one("bad", "poison");
  source.publish_one("bad", "behind");
  source.publish_one("good", "fine");
  options.attempts_max = 2;
  std::atomic<bool> fixed = false;
  auto consumer = open([&](sqlite3* transaction, const Event& event) -> Status {
    if (event.payload == "poison" && !fixed) throw std::runtime_error("poison");
    return record(transaction, event);
  });
  run_until(*consumer, [&] {
    source.publish_one("good", "fine");  // parked only if it fails while others pass
    return source.number("SELECT count(*) FROM dovetail_parked WHERE state = 'parked'") == 1;
  });
  EXPECT_EQ(application.number("SELECT count(*) FROM effect WHERE payload <> 'fine'"), 0);
  const std::vector<ParkedRow> heads =
      list_parked(publisher.path, {.relay = "billing", .heads_only = true}).value();
  ASSERT_EQ(heads.size(), 1u);
  EXPECT_TRUE(contains(heads[0].reason, "poison")) << heads[0].reason;

  fixed = true;
  ASSERT_EQ(replay_event(publisher.path, "billing", heads[0].id, system_clock()).value(), 1u);
  const std::string others = "SELECT group_concat(payload) FROM effect WHERE payload <> 'fine'";
  run_until(*consumer, [&] { return application.text(others) == "poison,behind"; });
}

TEST_F(ConsumerOfAnOutbox, TheHandlerPublishesInTheSameTransaction) {
  source.publish_one("k");
  auto consumer = open([](sqlite3* transaction, const Event& event) -> Status {
    NewEvent next;
    next.aggregate_type = "invoice";
    next.aggregate_id = event.aggregate_id;
    next.type = "written";
    next.payload = "{}";
    const Result<EventId> id = publish(transaction, next);
    if (!id) return fail(id.error());
    return record(transaction, event);
  });
  run_until(*consumer, [&] { return effects() == 1; });
  EXPECT_EQ(application.text("SELECT type FROM dovetail_outbox"), "written");
}

TEST_F(ConsumerOfAnOutbox, AHandlerThatCommitsLosesNothing) {
  for (int i = 0; i < 5; ++i) source.publish_one(std::to_string(i));
  std::atomic<bool> fixed = false;
  auto consumer = open([&](sqlite3* transaction, const Event& event) -> Status {
    if (!fixed) sqlite3_exec(transaction, "COMMIT", nullptr, nullptr, nullptr);
    return record(transaction, event);
  });
  run_until(*consumer, [&] { return source.number("SELECT count(*) FROM dovetail_parked") == 5; });
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_inbox"), 0);
  fixed = true;
  const auto parked = list_parked(publisher.path, {});
  ASSERT_TRUE(parked) << text_of(parked);
  for (const ParkedRow& row : *parked)
    EXPECT_TRUE(replay_event(publisher.path, options.name, row.id, system_clock()));
  run_until(*consumer, [&] { return effects() == 5; });
}

TEST_F(ConsumerOfAnOutbox, AnUnavailableHandlerCostsNoAttempt) {
  source.publish_one("k");
  std::atomic<int> calls = 0;
  options.attempts_max = 2;
  auto consumer = open([&](sqlite3* transaction, const Event& event) -> Status {
    if (++calls < 8) return fail(Errc::unavailable, "the other service is away; check it");
    return record(transaction, event);
  });
  run_until(*consumer, [&] { return effects() == 1; });
  EXPECT_EQ(source.number("SELECT count(*) FROM dovetail_parked"), 0);
}

TEST_F(ConsumerOfAnOutbox, TakesOnlyItsTopics) {
  source.publish_one("k", "1", "orders");
  source.publish_one("k", "2", "gossip");
  source.publish_one("k", "3", "orders");
  options.topics = {"orders"};
  auto consumer = open(record);
  run_until(*consumer, [&] { return effects() == 2; });
  EXPECT_EQ(application.text("SELECT group_concat(payload) FROM effect"), "1,3");
}

TEST_F(ConsumerOfAnOutbox, AnEventWithoutATopicHasThatOfARelay) {
  source.publish_one("k", "1");
  source.publish_one("k", "2", "gossip");
  options.topics = {"order.events"};
  std::string topic;
  auto consumer = open([&](sqlite3* transaction, const Event& event) {
    topic = event.topic;
    return record(transaction, event);
  });
  run_until(*consumer, [&] {
    return source.number("SELECT passed_seq FROM dovetail_relay WHERE relay='billing'") == 2;
  });
  EXPECT_EQ(topic, "order.events");
  EXPECT_EQ(effects(), 1);
}

TEST_F(ConsumerOfAnOutbox, SeveralHandlersEachForTheTypesThatItWants) {
  source.publish_one("k", "1");
  std::vector<NamedHandler> handlers(2);
  handlers[0].name = "ledger";
  handlers[0].each = record;
  handlers[1].name = "mail";
  handlers[1].types = {"nothing.*"};
  std::atomic<int> mails = 0;
  handlers[1].batch = [&](sqlite3*, std::span<const Event* const> events) {
    mails += static_cast<int>(events.size());
    return Status{};
  };
  auto consumer = Consumer::open(options, handlers);
  ASSERT_TRUE(consumer) << text_of(consumer);
  const auto has_passed = [&](int seq) {
    return [this, seq] {
      return source.number("SELECT passed_seq FROM dovetail_relay WHERE relay='billing'") == seq;
    };
  };
  run_until(**consumer, has_passed(1));
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ(mails, 0) << "it wants other types";
  EXPECT_EQ(application.text("SELECT group_concat(name) FROM dovetail_consumer AS c JOIN "
                             "dovetail_inbox AS i ON i.consumer_id = c.id"),
            "billing.ledger");

  // The first event comes again, and one handler wants more types than before.
  source.run("UPDATE dovetail_relay SET passed_seq = 0");
  source.publish_one("k", "2");
  handlers[1].types = {};
  consumer = Consumer::open(options, handlers);
  ASSERT_TRUE(consumer) << text_of(consumer);
  run_until(**consumer, has_passed(2));
  EXPECT_EQ(effects(), 2) << "the ledger has each event once";
  EXPECT_EQ(mails, 2) << "and the mail, too";
}

TEST_F(ConsumerOfAnOutbox, AFailingHandlerUndoesWhatTheOthersDid) {
  source.publish_one("k", "1");
  std::vector<NamedHandler> handlers(2);
  handlers[0].name = "ledger";
  handlers[0].each = record;
  handlers[1].name = "mail";
  std::atomic<int> tries = 0;
  handlers[1].each = [&](sqlite3*, const Event&) -> Status {
    if (++tries < 4) return fail(Errc::failed, "not yet");
    return {};
  };
  auto consumer = Consumer::open(options, handlers);
  ASSERT_TRUE(consumer) << text_of(consumer);
  run_until(**consumer, [&] { return tries == 4 && effects() == 1; });
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ((*consumer)->counts().applied, 1U);
}

TEST_F(ConsumerOfAnOutbox, RunsAgainAfterAStop) {
  auto consumer = open(record);
  for (int round = 1; round <= 3; ++round) {
    source.publish_one("k");
    run_until(*consumer, [&] { return effects() == round; });
  }
  EXPECT_EQ(consumer->counts().applied, 3U);
}

TEST_F(ConsumerOfAnOutbox, ASecondOneOfTheSameNameStandsBy) {
  for (int i = 0; i < 20; ++i) source.publish_one("k");
  std::atomic<bool> stood_by = false;
  auto first = open(record);
  options.log = [&](std::string_view line) { stood_by = stood_by || contains(line, "standby"); };
  auto second = open(record);
  std::jthread waiting([&](std::stop_token stop) {
    // It may only begin when the other one holds the lease.
    eventually([&] { return effects() > 0; });
    EXPECT_TRUE(second->run(stop));
  });
  run_until(*first, [&] { return stood_by.load(); });
  EXPECT_EQ(effects(), 20);
}

TEST_F(ConsumerOfAnOutbox, WrongOptionsAreRejected) {
  const auto rejected = [](ConsumerOptions wrong, Consumer::Handler handler) {
    const auto consumer = Consumer::open(std::move(wrong), std::move(handler));
    return failed_with(consumer, Errc::rejected);
  };
  ConsumerOptions wrong = options;
  wrong.name = "";
  EXPECT_TRUE(rejected(wrong, record));
  wrong = options;
  wrong.database = "";
  EXPECT_TRUE(rejected(wrong, record));
  EXPECT_TRUE(rejected(options, nullptr));
  const auto refused = [&](const std::function<void(ConsumerOptions&)>& change) {
    ConsumerOptions changed = options;
    change(changed);
    const auto consumer = Consumer::open(changed, record);
    return failed_with(consumer, Errc::rejected) && contains(text_of(consumer), "; ");
  };
  EXPECT_TRUE(refused([](auto& one) { one.name = "billing.eu"; }));
  EXPECT_TRUE(refused([](auto& one) { one.parallel = 2; })) << "a file has one writer";
  EXPECT_TRUE(refused([](auto& one) { one.version_guard = true; })) << "PostgreSQL only";
  EXPECT_TRUE(refused([](auto& one) {
    one.origin.make = [](Clock&, Duration) -> Result<std::unique_ptr<Source>> { return nullptr; };
  })) << "from and origin";
  wrong = options;
  wrong.from = publisher.directory() + "/missing.db";
  EXPECT_TRUE(failed_with(Consumer::open(wrong, record), Errc::unavailable));
}

// The whole embedded path: an outbox, a relay, the mailbox of another file, and its consumer.
TEST_F(ConsumerOfAnOutbox, TheMailboxRoadDeliversEndToEnd) {
  for (int i = 0; i < 200; ++i) source.publish_one(std::to_string(i % 7), std::to_string(i));
  Reader reader{publisher.path, "relay"};
  SqliteSource outbox(reader, system_clock());
  SqliteLease lease(reader, system_clock(), "relay", boot_id());
  SqliteParking parking(reader, system_clock());
  MailboxSink mailbox(MailboxOptions{service.path}, system_clock());
  RelayMetrics metrics;
  Relay relay(RelayPorts{outbox, mailbox, parking, lease, system_clock(), metrics}, RelayOptions{});
  std::jthread relay_thread([&](std::stop_token stop) {
    const Status ended = relay.run(stop);
    EXPECT_TRUE(ended) << text_of(ended);
  });
  options.from = "";
  auto consumer = open(record);
  run_until(*consumer, [&] { return effects() == 200; });
  relay_thread.request_stop();
  relay_thread.join();
  EXPECT_EQ(application.number("SELECT count(DISTINCT event) FROM effect"), 200);
  EXPECT_EQ(application.number("SELECT count(*) FROM effect AS a JOIN effect AS b ON a.n < b.n AND "
                               "a.payload % 7 = b.payload % 7 AND a.payload + 0 > b.payload + 0"),
            0)
      << "order along each key";
}

}  // namespace
}  // namespace dovetail::sqlite
