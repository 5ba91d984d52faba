// What the functions of the public headers do when the server does not answer.
#include "postgres/connection/call.h"

#include <libpq-fe.h>
#include <signal.h>

#include <functional>
#include <string>

#include "dovetail/idempotency.h"
#include "dovetail/postgres.h"
#include "dovetail/postgres_consumer.h"
#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

// Stops a process until the end of the scope.
class Frozen {
 public:
  explicit Frozen(int pid) : pid_(pid) { EXPECT_EQ(::kill(pid_, SIGSTOP), 0); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;
  ~Frozen() { ::kill(pid_, SIGCONT); }

 private:
  int pid_;
};

class TimeLimit : public testing::Test {
 protected:
  TimeLimit() : connection_(database_.connect()) {
    EXPECT_TRUE(create_schema(connection_));
    set_time_limit(500ms);
  }
  ~TimeLimit() override { set_time_limit(30s); }

  // Its own connection, as an application opens it: one that blocks.
  OwnedConnection application() const {
    OwnedConnection opened(PQconnectdb(database_.conninfo.c_str()));
    EXPECT_EQ(PQstatus(opened.get()), CONNECTION_OK) << PQerrorMessage(opened.get());
    return opened;
  }
  using Work = std::function<Status(pg_conn*)>;
  // What a call returns whose backend is frozen; the connection cannot be used afterwards.
  Status frozen(bool in_transaction, const Work& work) const {
    const OwnedConnection opened = application();
    if (in_transaction) PQclear(PQexec(opened.get(), "BEGIN"));
    const Frozen backend(PQbackendPID(opened.get()));
    Status done = work(opened.get());
    EXPECT_EQ(PQstatus(opened.get()), CONNECTION_BAD);
    return done;
  }
  template <class T>
  static Status status_of(const Result<T>& result) {
    return result ? Status{} : fail(result.error());
  }
  std::int64_t count() { return number(connection_, "SELECT count(*) FROM dovetail.outbox"); }

  static NewEvent event(std::string_view payload = "{}") {
    NewEvent event;
    event.aggregate_type = "order";
    event.aggregate_id = "17";
    event.type = "placed";
    event.payload = payload;
    return event;
  }

  TestDatabase database_;
  Connection connection_;
};

TEST_F(TimeLimit, AFrozenServerFailsEveryCallInTimeAndTheConnectionIsCut) {
  const EventId id = new_event_id();
  const std::string large = '"' + std::string(900'000, 'x') + '"';  // more than a socket takes
  const Work calls[] = {
      [&](pg_conn* one) { return status_of(publish(one, event())); },
      [&](pg_conn* one) { return status_of(publish(one, event(large))); },
      [&](pg_conn* one) {
        const NewEvent two[] = {event(), event()};
        return status_of(publish(one, two));
      },
      [&](pg_conn* one) { return status_of(publish_at(one, event(), system_clock().wall())); },
      [&](pg_conn* one) { return status_of(claim(one, "stock", id)); },
      [&](pg_conn* one) { return status_of(begin_request(one, {"shop", "key", "print"})); },
      [&](pg_conn* one) { return create_schema(one); },
  };
  for (const Work& work : calls) {
    const Status done = frozen(true, work);
    EXPECT_TRUE(failed_with(done, Errc::unavailable)) << text_of(done);
    EXPECT_TRUE(contains(text_of(done), "no answer from the server within 1 s")) << text_of(done);
  }
  const Work alone[] = {
      [&](pg_conn* one) { return status_of(claim(one, "stock", id, 10s)); },
      [&](pg_conn* one) { return fail_claim(one, "stock", id, 1); },
      [&](pg_conn* one) { return release_claim(one, "stock", id, 1); },
      [&](pg_conn* one) { return status_of(Publisher::open(one)); },
  };
  for (const Work& work : alone)
    EXPECT_TRUE(contains(text_of(frozen(false, work)), "no answer from the server within"));
  EXPECT_EQ(count(), 0);
}

TEST_F(TimeLimit, ACommitWithoutAnAnswerIsInDoubt) {
  const Status done =
      frozen(true, [](pg_conn* one) { return status_of(publish_and_commit(one, event())); });
  EXPECT_TRUE(failed_with(done, Errc::in_doubt)) << text_of(done);
}

TEST_F(TimeLimit, AConnectionThatBlocksStillBlocksAfterwards) {
  const OwnedConnection opened = application();
  PQclear(PQexec(opened.get(), "BEGIN"));
  ASSERT_TRUE(publish(opened.get(), event()));
  EXPECT_EQ(PQisnonblocking(opened.get()), 0);
  ASSERT_TRUE(publish_and_commit(opened.get(), event()));
  EXPECT_EQ(PQisnonblocking(opened.get()), 0);
  EXPECT_EQ(count(), 2);
}

TEST_F(TimeLimit, AStatementThatWaitsForALockEndsToo) {
  must(connection_, "BEGIN; LOCK TABLE dovetail.outbox IN ACCESS EXCLUSIVE MODE");
  const OwnedConnection opened = application();
  PQclear(PQexec(opened.get(), "BEGIN"));
  EXPECT_TRUE(failed_with(publish(opened.get(), event()), Errc::unavailable));
  EXPECT_TRUE(failed_with(publish(opened.get(), event()), Errc::unavailable)) << "it stays cut";
  must(connection_, "ROLLBACK");
}

TEST(TimeLimitOfConnecting, AFrozenServerFailsOpenInTime) {
  servers::Started server("postgres");
  const std::string conninfo = server.server().conninfo + " connect_timeout=2";
  const Frozen postmaster(server.pid());
  ConsumerOptions options;
  options.database = conninfo;
  options.name = "stock";
  const auto opened = Consumer::open(options, [](Invocation&, const Event&) { return Status{}; });
  EXPECT_TRUE(failed_with(opened, Errc::unavailable)) << text_of(opened);
}

}  // namespace
}  // namespace dovetail::postgres
