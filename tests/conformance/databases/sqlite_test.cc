// The SQLite adapter passes the suites for all adapters.
#include "conformance/claim_suite.h"
#include "conformance/inbox_suite.h"
#include "conformance/lane_suite.h"
#include "conformance/sink_suite.h"
#include "conformance/source_suite.h"
#include "core/testing/test_clock.h"
#include "host/host.h"
#include "sqlite/inbox/inbox_store.h"
#include "sqlite/inbox/mailbox.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/outbox/source.h"
#include "sqlite/testing/test_file.h"
#include "sqlite/work/claims.h"

namespace dovetail::conformance {
namespace {

using sqlite::Reader;
using sqlite::SqliteLease;
using sqlite::SqliteParking;
using sqlite::SqliteSource;

void publish_committed(const std::string& path, const NewEvent& event) {
  sqlite::Application application(path);
  ASSERT_TRUE(sqlite::prepare_connection(application.connection));
  ASSERT_EQ(application.run("BEGIN IMMEDIATE"), SQLITE_OK);
  const auto id = sqlite::publish(application.connection, event);
  ASSERT_TRUE(id) << id.error().text;
  ASSERT_EQ(application.run("COMMIT"), SQLITE_OK);
}

class OutboxStore final : public SourceUnderTest {
 public:
  SourceAbilities abilities() const override { return {}; }
  std::unique_ptr<Source> make() override {
    return std::make_unique<SqliteSource>(reader_, system_clock());
  }
  void publish(const NewEvent& event) override { publish_committed(file_.path, event); }

 private:
  sqlite::TestFile file_;
  Reader reader_{file_.path, "reader", SourceKind::outbox};
};

// Publishes by delivering, like the relay of another service.
class MailboxStore final : public SourceUnderTest {
 public:
  SourceAbilities abilities() const override { return {}; }
  std::unique_ptr<Source> make() override {
    return std::make_unique<SqliteSource>(reader_, system_clock());
  }
  void publish(const NewEvent& event) override {
    sqlite::MailboxSink sink({.path = file_.path}, system_clock());
    ASSERT_TRUE(sink.open());
    Event sent;
    sent.id = *event.id;
    sent.topic = event.topic;
    sent.aggregate_type = event.aggregate_type;
    sent.aggregate_id = event.aggregate_id;
    sent.type = event.type;
    sent.content_type = event.content_type;
    sent.payload = event.payload;
    sent.aggregate_version = event.aggregate_version;
    const auto headers = encode_headers(event.headers);
    ASSERT_TRUE(headers);
    if (!event.headers.empty()) sent.headers = *headers;
    Batch batch;
    const Event* const one = &batch.append(sent);
    ASSERT_TRUE(sink.submit({&one, 1}));
    Outcome outcome;
    const auto known = sink.collect({&outcome, 1}, std::chrono::seconds(5));
    ASSERT_TRUE(known && *known);
    ASSERT_EQ(outcome.fate, Fate::confirmed) << outcome.reason;
  }

 private:
  sqlite::TestFile file_;
  Reader reader_{file_.path, "reader", SourceKind::mailbox};
};

class MailboxSinkStore final : public SinkUnderTest {
 public:
  SinkAbilities abilities() const override { return {true, true, true, false}; }
  std::unique_ptr<Sink> make() override {
    return std::make_unique<sqlite::MailboxSink>(
        sqlite::MailboxOptions{.path = file_.path, .topics = {"orders"}}, system_clock());
  }
  std::vector<StoredEvent> stored() override {
    Reader reader{file_.path, "checker", SourceKind::mailbox};
    SqliteSource source(reader, system_clock());
    EXPECT_TRUE(source.open());
    std::vector<StoredEvent> events;
    for (;;) {
      Batch batch;
      EXPECT_TRUE(source.read(batch, Limits{}, std::stop_token{}));
      if (batch.empty()) return events;
      for (const Event& event : batch.events()) events.emplace_back(event);
    }
  }
  void make_poison(Event& event) override { event.topic = "unknown"; }

 private:
  sqlite::TestFile file_;
};

class SqliteLane final : public LaneUnderTest {
 public:
  LaneOwner join(const std::string& name) override {
    auto reader = std::make_shared<Reader>(Reader{file_.path, "reader", SourceKind::outbox});
    LaneOwner owner;
    owner.lease = std::make_unique<SqliteLease>(*reader, clock, name, "boot", kTerm);
    owner.source = std::make_unique<SqliteSource>(*reader, clock);
    owner.parking = std::make_unique<SqliteParking>(*reader, clock);
    owner.state = reader;
    return owner;
  }
  void publish(const NewEvent& event) override { publish_committed(file_.path, event); }
  std::optional<std::vector<KeptReceipt>> receipts() override {
    std::vector<KeptReceipt> kept;
    Result<sqlite::Database> database = sqlite::open_store(file_.path);
    EXPECT_TRUE(database);
    Result<sqlite::Statement> select = database->prepare(
        "SELECT substr(owner, 1, instr(owner || '#', '#') - 1), first_seq, last_seq, events, "
        "places "
        "FROM dovetail_receipt ORDER BY rowid");
    EXPECT_TRUE(select);
    while (*select->step())
      kept.push_back({std::string(select->bytes(0)), select->integer(1), select->integer(2),
                      select->integer(3), std::string(select->bytes(4))});
    return kept;
  }

 private:
  sqlite::TestFile file_;
};

class SqliteClaims final : public ClaimsUnderTest {
 public:
  std::unique_ptr<ClaimStore> make(const std::string& consumer) override {
    return std::make_unique<sqlite::SqliteClaimStore>(file_.path, consumer, clock_, "boot");
  }
  void pass(Duration duration) override { clock_.advance(duration); }
  void set_clock(std::chrono::hours step) override { clock_.set_wall(clock_.wall() + step); }

 private:
  TestClock clock_;
  sqlite::TestFile file_;
};

template <class Base, class Made>
std::unique_ptr<Base> make() {
  return std::make_unique<Made>();
}

class SqliteInboxes final : public InboxUnderTest {
 public:
  SqliteInboxes() { application_.run("CREATE TABLE effect (n INTEGER PRIMARY KEY, id BLOB)"); }
  std::unique_ptr<InboxStore> make(const std::string& consumer, std::uint32_t,
                                   InboxHandler handler) override {
    return std::make_unique<sqlite::SqliteInboxStore>(
        file_.path, consumer,
        [handler](sqlite3* open, const Event& event) {
          const auto run = [open](const char* sql) {
            sqlite3_exec(open, sql, nullptr, nullptr, nullptr);
          };
          InboxTransaction transaction;
          transaction.effect = [open](const Event& of) -> Status {
            auto insert = sqlite::Statement::prepare(open, "INSERT INTO effect (id) VALUES (?1)");
            if (!insert) return fail(insert.error());
            return insert->bind_id(1, of.id).run();
          };
          transaction.commit = [run] { run("COMMIT; BEGIN"); };
          transaction.roll_back = [run] { run("ROLLBACK; BEGIN"); };
          return handler(transaction, event);
        },
        system_clock());
  }
  std::vector<EventId> effects() override {
    std::vector<EventId> ids;
    auto select =
        sqlite::Statement::prepare(application_.connection, "SELECT id FROM effect ORDER BY n");
    EXPECT_TRUE(select);
    while (select && select->step().value_or(false)) ids.push_back(select->id(0));
    return ids;
  }
  bool forget_before(WallTime time) override {
    application_.run("UPDATE dovetail_consumer SET forgotten_until = " +
                     std::to_string(sqlite::to_stored(time)));
    return true;
  }

 private:
  sqlite::TestFile file_;
  sqlite::Application application_{file_.path};
};

INSTANTIATE_TEST_SUITE_P(Sqlite, SourceSuite,
                         testing::Values(SourceCase{"outbox", make<SourceUnderTest, OutboxStore>},
                                         SourceCase{"mailbox",
                                                    make<SourceUnderTest, MailboxStore>}),
                         case_name<SourceCase>);
INSTANTIATE_TEST_SUITE_P(Sqlite, SinkSuite,
                         testing::Values(SinkCase{"mailbox",
                                                  make<SinkUnderTest, MailboxSinkStore>}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Sqlite, LeaseSuite,
                         testing::Values(LaneCase{"lane", make<LaneUnderTest, SqliteLane>}),
                         case_name<LaneCase>);
INSTANTIATE_TEST_SUITE_P(Sqlite, ParkingSuite,
                         testing::Values(LaneCase{"lane", make<LaneUnderTest, SqliteLane>}),
                         case_name<LaneCase>);
INSTANTIATE_TEST_SUITE_P(Sqlite, ClaimSuite,
                         testing::Values(ClaimCase{"claims", make<ClaimsUnderTest, SqliteClaims>}),
                         case_name<ClaimCase>);

INSTANTIATE_TEST_SUITE_P(Sqlite, InboxSuite,
                         testing::Values(InboxCase{"sqlite",
                                                   []() -> std::unique_ptr<InboxUnderTest> {
                                                     return std::make_unique<SqliteInboxes>();
                                                   }}),
                         case_name<InboxCase>);

}  // namespace
}  // namespace dovetail::conformance
