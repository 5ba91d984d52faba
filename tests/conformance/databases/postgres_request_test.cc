// HTTP requests in PostgreSQL, directly and through a pooler in transaction mode.
#include <future>

#include "conformance/request_suite.h"
#include "dovetail/postgres.h"
#include "postgres/testing/clock_step.h"
#include "postgres/testing/test_database.h"
#include "postgres/work/requests.h"

namespace dovetail::conformance {
namespace {

using postgres::Connection;
using postgres::must;
using postgres::number;
using postgres::text;

class Service final : public OwnTransaction {
 public:
  explicit Service(const std::string& conninfo)
      : connection_(std::move(Connection::open(conninfo).value())) {}
  void begin() override { must(connection_, "BEGIN"); }
  void commit() override { must(connection_, "COMMIT"); }
  void rollback() override { must(connection_, "ROLLBACK"); }
  Result<RequestTicket> begin_request(const RequestKey& request,
                                      std::chrono::milliseconds keep) override {
    return postgres::begin_request(connection_.get(), request, keep);
  }
  Status finish_request(const RequestKey& request, const EventId& token,
                        const StoredResponse& response) override {
    return postgres::finish_request(connection_.get(), request, token, response);
  }

 private:
  Connection connection_;
};

class PostgresRequests final : public RequestsUnderTest {
 public:
  explicit PostgresRequests(bool pooled) {
    Connection owner = database_.connect();
    const Status created = postgres::create_schema(owner.get());
    EXPECT_TRUE(created) << text_of(created);
    conninfo_ = pooled ? servers::with_database(servers::find("pgbouncer").conninfo, database_.name)
                       : database_.conninfo;
  }
  std::unique_ptr<RequestStore> make() override {
    return std::make_unique<postgres::PostgresRequestStore>(conninfo_);
  }
  std::unique_ptr<OwnTransaction> connect() override {
    return std::make_unique<Service>(conninfo_);
  }
  void elapse(std::chrono::milliseconds time) override {
    Connection owner = database_.connect();
    const std::string span = "interval '" + std::to_string(time.count()) + " milliseconds'";
    must(owner, "UPDATE dovetail.request SET lease_until = lease_until - " + span +
                    ", expires_at = expires_at - " + span);
  }
  void set_clock(std::chrono::hours step) override {
    Connection owner = database_.connect();
    postgres::set_clock(owner, "dovetail.request", "lease_until", step);
    postgres::set_clock(owner, "dovetail.request", "expires_at", step);
  }
  std::vector<RequestInfo> list(const RequestFilter& filter) override {
    return postgres::list_requests(conninfo_, filter).value();
  }
  Result<bool> forget(const RequestKey& request, std::string_view reason) override {
    return postgres::forget_request(conninfo_, request, reason);
  }
  std::uint64_t prune(std::size_t rows_max) override {
    Connection owner = database_.connect();
    return static_cast<std::uint64_t>(
        number(owner, "SELECT dovetail.prune_requests(" + std::to_string(rows_max) + ")"));
  }

 private:
  postgres::TestDatabase database_;
  std::string conninfo_;
};

template <bool kPooled>
std::unique_ptr<RequestsUnderTest> make_requests() {
  return std::make_unique<PostgresRequests>(kPooled);
}

INSTANTIATE_TEST_SUITE_P(Postgres, Requests,
                         testing::Values(RequestCase{"direct", make_requests<false>},
                                         RequestCase{"pooled", make_requests<true>}),
                         case_name<RequestCase>);

class PostgresRequestFunctions : public testing::Test {
 protected:
  void SetUp() override {
    owner_ = database_.connect();
    ASSERT_TRUE(postgres::create_schema(owner_.get()));
  }
  postgres::TestDatabase database_;
  Connection owner_;
  const RequestKey request_{"shop", "key", "print"};
};

TEST_F(PostgresRequestFunctions, FingerprintsAreThoseOfTheLibrary) {
  const std::string body("\0{\"a\": \xc3\xa9}", 10);
  const auto rows =
      owner_.query("SELECT dovetail.request_fingerprint($1, $2, $3)",
                   postgres::Params().text("POST").text("/orders?x=\xc3\xa9").bytea(body));
  ASSERT_TRUE(rows) << text_of(rows);
  EXPECT_EQ(rows->bytea(0, 0), request_fingerprint("POST", "/orders?x=\xc3\xa9", body));
}

TEST_F(PostgresRequestFunctions, ARepeatDuringTheTransactionIsToldAtOnceThatItRuns) {
  Connection first = database_.connect();
  Connection second = database_.connect();
  must(first, "BEGIN");
  ASSERT_EQ(postgres::begin_request(first.get(), request_)->state, RequestState::first);
  must(second, "BEGIN; SET LOCAL lock_timeout = '10s'");
  const auto repeat = postgres::begin_request(second.get(), request_);
  ASSERT_TRUE(repeat) << text_of(repeat);
  EXPECT_EQ(repeat->state, RequestState::running);
  must(second, "ROLLBACK");
}

TEST_F(PostgresRequestFunctions, ARepeatThatWaitsGetsTheAnswerOfTheFirst) {
  Connection first = database_.connect();
  Connection second = database_.connect();
  must(first, "BEGIN");
  const auto ticket = postgres::begin_request(first.get(), request_);
  ASSERT_EQ(ticket->state, RequestState::first);
  must(second, "BEGIN");
  auto repeat = std::async(std::launch::async, [&] {
    return postgres::begin_request(second.get(), request_, std::chrono::hours(1), true);
  });
  EXPECT_TRUE(eventually(
      [&] { return number(owner_, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 1; }));
  ASSERT_TRUE(postgres::finish_request(first.get(), request_, ticket->token, {200, "", "done"}));
  must(first, "COMMIT");
  const auto answer = repeat.get();
  ASSERT_TRUE(answer) << text_of(answer);
  EXPECT_EQ(answer->state, RequestState::finished);
  EXPECT_EQ(answer->response.body, "done");
  must(second, "COMMIT");
}

TEST_F(PostgresRequestFunctions, TheWaitingOneRunsWhenTheFirstRollsBack) {
  Connection first = database_.connect();
  Connection second = database_.connect();
  must(first, "BEGIN");
  ASSERT_EQ(postgres::begin_request(first.get(), request_)->state, RequestState::first);
  must(second, "BEGIN");
  auto repeat = std::async(std::launch::async, [&] {
    return postgres::begin_request(second.get(), request_, std::chrono::hours(1), true);
  });
  EXPECT_TRUE(eventually(
      [&] { return number(owner_, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 1; }));
  must(first, "ROLLBACK");
  EXPECT_EQ(repeat.get()->state, RequestState::first);
  must(second, "ROLLBACK");
}

TEST_F(PostgresRequestFunctions, RolesUseTheFunctionsAndReadNoAnswersOfOthers) {
  ASSERT_TRUE(postgres::create_roles(owner_.get()));
  for (const std::string role : {"worker", "relay", "operator"}) {
    const std::string login = database_.name + "_" + role;
    must(owner_, "CREATE ROLE " + login + " LOGIN; GRANT dovetail_" + role + " TO " + login);
  }
  for (const std::string role : {"worker", "relay"}) {
    Connection connection = database_.connect(database_.name + "_" + role);
    const RequestKey request{"shop", role, "print"};
    must(connection, "BEGIN");
    const auto ticket = postgres::begin_request(connection.get(), request);
    ASSERT_TRUE(ticket) << text_of(ticket);
    const auto done =
        postgres::finish_request(connection.get(), request, ticket->token, {200, "", "done"});
    ASSERT_TRUE(done) << text_of(done);
    must(connection, "COMMIT");
    EXPECT_EQ(postgres::lease_request(connection.get(), request)->response.body, "done");
    EXPECT_FALSE(connection.query("SELECT FROM dovetail.request"));
    // A gateway deletes expired requests.
    EXPECT_TRUE(connection.query("SELECT dovetail.prune_requests(1)"));
    EXPECT_FALSE(connection.query("SELECT dovetail.forget_request('shop', 'worker', 'x')"));
    EXPECT_FALSE(connection.query(
        "SELECT dovetail.take_request('s', 'k', '', gen_random_uuid(), '1s', '1h', false, false)"));
  }
  Connection person = database_.connect(database_.name + "_operator");
  EXPECT_EQ(text(person, "SELECT state FROM dovetail.requests WHERE key = 'worker'"), "finished");
  EXPECT_EQ(number(person, "SELECT dovetail.forget_request('shop', 'worker', 'was a test')::int"),
            1);
  EXPECT_EQ(text(owner_, "SELECT who || ': ' || reason FROM dovetail.audit"),
            database_.name + "_operator: was a test");
  person.close();
  for (const std::string role : {"worker", "relay", "operator"})
    must(owner_, "DROP ROLE " + database_.name + "_" + role);
}

// What the clock of the time before wrote is no reason to keep it from an operator or a prune.
TEST_F(PostgresRequestFunctions, AfterTheClockWasSetBackALeaseIsNotTakenForALiveOne) {
  for (const std::string key : {"one", "two"})
    must(owner_,
         "SELECT dovetail.lease_request('shop', '" + key + "', 'print', '1 minute', '1 h')");
  postgres::set_clock(owner_, "dovetail.request", "lease_until", std::chrono::hours(-48));
  EXPECT_EQ(text(owner_, "SELECT string_agg(state, ' ') FROM dovetail.requests"),
            "unknown unknown");
  EXPECT_EQ(number(owner_, "SELECT dovetail.forget_request('shop', 'one', 'looked at it')::int"),
            1);
  must(owner_, "UPDATE dovetail.request SET expires_at = now()");
  EXPECT_EQ(number(owner_, "SELECT dovetail.prune_requests(10)"), 1);
}

TEST_F(PostgresRequestFunctions, FinishingInSqlRaisesWhenTheRequestWasLost) {
  must(owner_,
       "SELECT * FROM dovetail.lease_request('shop', 'key', 'print', '1 minute', token => "
       "'00000000-0000-4000-8000-000000000001')");
  must(
      owner_,
      "SELECT dovetail.finish_request('shop', 'key', '00000000-0000-4000-8000-000000000001', 200)");
  const Status lost = owner_.execute(
      "SELECT dovetail.finish_request('shop', 'key', '00000000-0000-4000-8000-000000000002', 200)");
  ASSERT_FALSE(lost);
  EXPECT_TRUE(contains(lost.error().text, "not held by this token")) << lost.error().text;
}

TEST_F(PostgresRequestFunctions, ACallThatComesAfterItsReleaseTakesNothing) {
  const std::string begin =
      "SELECT state FROM dovetail.lease_request('shop', 'key', 'print', '1 minute', token => "
      "'00000000-0000-4000-8000-000000000001')";
  Connection late = database_.connect();
  must(owner_, "BEGIN");
  EXPECT_EQ(text(owner_, begin), "first");
  // Its caller has given up, and it waits for the first call to commit.
  std::future<Status> waiting = std::async(std::launch::async, [&] { return late.execute(begin); });
  Connection watcher = database_.connect();
  ASSERT_TRUE(eventually([&] {
    return number(watcher,
                  "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() "
                  "AND wait_event_type = 'Lock'") == 1;
  }));
  must(owner_,
       "SELECT dovetail.release_request('shop', 'key', '00000000-0000-4000-8000-000000000001')");
  must(owner_, "COMMIT");
  const Status refused = waiting.get();
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().text, "begin the request again with a new token"))
      << refused.error().text;
  EXPECT_EQ(number(owner_, "SELECT count(*)::int FROM dovetail.requests"), 0);
  EXPECT_EQ(text(owner_, "SELECT state FROM dovetail.lease_request('shop', 'key', 'print')"),
            "first");
}

}  // namespace
}  // namespace dovetail::conformance
