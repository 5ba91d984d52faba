// Publishing without waiting, as the event loop of an application does it: with libpq and poll().
#include <libpq-fe.h>
#include <poll.h>

#include <functional>
#include <string>
#include <vector>

#include "dovetail/postgres.h"
#include "dovetail/postgres_async.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

NewEvent event_of(std::string_view key, std::string_view payload = "{}") {
  NewEvent event;
  event.aggregate_type = "order";
  event.aggregate_id = key;
  event.type = "placed";
  event.payload = payload;
  return event;
}

class AsyncPublish : public testing::Test {
 protected:
  AsyncPublish() : connection_(database_.connect()) {
    EXPECT_TRUE(create_schema(connection_));
    must(connection_, "CREATE TABLE orders (id int PRIMARY KEY)");
    application_.reset(PQconnectdb(database_.conninfo.c_str()));
    EXPECT_EQ(PQstatus(app()), CONNECTION_OK) << PQerrorMessage(app());
    EXPECT_EQ(PQsetnonblocking(app(), 1), 0);
  }
  pg_conn* app() { return application_.get(); }
  std::int64_t count() { return number(connection_, "SELECT count(*) FROM dovetail.outbox"); }

  void queue(const char* sql) {
    ASSERT_EQ(PQsendQueryParams(app(), sql, 0, nullptr, nullptr, nullptr, nullptr, 0), 1)
        << PQerrorMessage(app());
  }
  // One turn of an event loop: waits until the socket is ready and lets libpq work.
  void turn() {
    const int unsent = PQflush(app());
    ASSERT_GE(unsent, 0) << PQerrorMessage(app());
    pollfd ready{PQsocket(app()), static_cast<short>(POLLIN | (unsent == 1 ? POLLOUT : 0)), 0};
    ASSERT_GE(::poll(&ready, 1, 60'000), 1) << "the server does not answer";
    ASSERT_EQ(PQconsumeInput(app()), 1) << PQerrorMessage(app());
  }
  // The results of all statements, until the connection is idle or the pipeline is in sync.
  std::vector<Rows> results(std::size_t statements) {
    std::vector<Rows> all;
    bool is_synced = false;
    while (all.size() < statements || (PQpipelineStatus(app()) != PQ_PIPELINE_OFF && !is_synced)) {
      if (PQisBusy(app()) == 1) {
        turn();
        if (HasFatalFailure()) break;
        continue;
      }
      Rows one(PQgetResult(app()));
      if (one.get() == nullptr) continue;
      is_synced = PQresultStatus(one.get()) == PGRES_PIPELINE_SYNC;
      if (!is_synced) all.push_back(std::move(one));
    }
    // A null ends the last statement.
    if (PQpipelineStatus(app()) == PQ_PIPELINE_OFF) {
      EXPECT_EQ(PQgetResult(app()), nullptr);
    }
    return all;
  }
  void run(const char* sql) {
    queue(sql);
    const std::vector<Rows> all = results(1);
    ASSERT_EQ(PQresultStatus(all.at(0).get()), PGRES_COMMAND_OK) << PQerrorMessage(app());
  }

  TestDatabase database_;
  Connection connection_;
  OwnedConnection application_;
};

TEST_F(AsyncPublish, AnEventExistsIfAndOnlyIfTheTransactionOfTheCallerCommits) {
  for (const char* end : {"ROLLBACK", "COMMIT"}) {
    run("BEGIN");
    const Result<EventId> id = enqueue_publish(app(), event_of("17", R"({"total": 3})"));
    ASSERT_TRUE(id) << text_of(id);
    const std::vector<Rows> all = results(1);
    const Status done = publish_outcome(app(), all.at(0).get());
    EXPECT_TRUE(done) << text_of(done);
    run(end);
    EXPECT_EQ(count(), std::string(end) == "COMMIT" ? 1 : 0);
    if (count() == 1) {
      EXPECT_EQ(text(connection_, "SELECT id::text FROM dovetail.outbox"), id->to_string());
    }
  }
}

TEST_F(AsyncPublish, APipelineCarriesWholeTransactionsWithoutWaiting) {
  ASSERT_EQ(PQenterPipelineMode(app()), 1);
  std::vector<std::string> ids;
  const std::string large(300'000, 'x');  // more than fits into the socket at once
  for (int i = 0; i < 3; ++i) {
    queue("BEGIN");
    NewEvent event = event_of(std::to_string(i), large);
    event.content_type = "text/plain";
    const Result<EventId> id = enqueue_publish(app(), event);
    ASSERT_TRUE(id) << text_of(id);
    ids.push_back(id->to_string());
    queue("COMMIT");
  }
  ASSERT_EQ(PQpipelineSync(app()), 1);
  const std::vector<Rows> all = results(9);
  ASSERT_EQ(all.size(), 9U);
  for (const Rows& one : all) EXPECT_TRUE(publish_outcome(app(), one.get()));
  EXPECT_EQ(text(connection_, "SELECT string_agg(id::text, ',' ORDER BY seq) FROM dovetail.outbox"),
            ids[0] + "," + ids[1] + "," + ids[2]);
}

TEST_F(AsyncPublish, AFailureInThePipelinePublishesNothingAndSaysSo) {
  must(connection_, "INSERT INTO orders VALUES (1)");
  ASSERT_EQ(PQenterPipelineMode(app()), 1);
  queue("BEGIN");
  queue("INSERT INTO orders VALUES (1)");
  ASSERT_TRUE(enqueue_publish(app(), event_of("1")));
  queue("COMMIT");
  ASSERT_EQ(PQpipelineSync(app()), 1);
  const std::vector<Rows> all = results(4);
  EXPECT_EQ(PQresultStatus(all.at(1).get()), PGRES_FATAL_ERROR);
  EXPECT_TRUE(failed_with(publish_outcome(app(), all.at(2).get()), Errc::failed));
  EXPECT_EQ(count(), 0);
}

TEST_F(AsyncPublish, AnIdThatWasUsedForOtherContentIsRefusedByTheServer) {
  NewEvent event = event_of("17");
  run("BEGIN");
  event.id = enqueue_publish(app(), event).value();
  EXPECT_TRUE(publish_outcome(app(), results(1).at(0).get()));
  run("COMMIT");
  for (const char* payload : {"{}", "[]"}) {
    event.payload = payload;
    run("BEGIN");
    ASSERT_TRUE(enqueue_publish(app(), event));
    const std::vector<Rows> all = results(1);
    const Status done = publish_outcome(app(), all.at(0).get());
    EXPECT_EQ(done.has_value(), event.payload == "{}") << text_of(done);
    run("ROLLBACK");
  }
  EXPECT_EQ(count(), 1);
}

TEST_F(AsyncPublish, WhatCannotWorkIsRefusedBeforeItIsSent) {
  EXPECT_TRUE(failed_with(enqueue_publish(app(), event_of("1")), Errc::rejected))
      << "no transaction is open";
  run("BEGIN");
  EXPECT_TRUE(failed_with(enqueue_publish(app(), event_of("1", "")), Errc::rejected));
  EXPECT_TRUE(failed_with(publish_statement(event_of("1", "")), Errc::rejected));
  ASSERT_EQ(PQsetnonblocking(app(), 0), 0);
  EXPECT_TRUE(contains(text_of(enqueue_publish(app(), event_of("1"))), "PQsetnonblocking"));
  ASSERT_EQ(PQsetnonblocking(app(), 1), 0);
  run("ROLLBACK");
  ASSERT_EQ(PQenterPipelineMode(app()), 1);
  EXPECT_TRUE(contains(text_of(create_schema(app())), "pipeline mode")) << "it would wait";
}

TEST_F(AsyncPublish, ALostConnectionIsNoAnswer) {
  run("BEGIN");
  ASSERT_TRUE(enqueue_publish(app(), event_of("1")));
  must(connection_, "SELECT pg_terminate_backend(" + std::to_string(PQbackendPID(app())) + ")");
  EXPECT_TRUE(failed_with(publish_outcome(app(), nullptr), Errc::unavailable));
}

// With parameters of the kinds that other drivers have: untyped text, and bytes.
TEST_F(AsyncPublish, TheStatementWorksWithAnyDriver) {
  const std::string payload("a\0b\xff", 4);
  const Header headers[] = {{"traceparent", "00-1"}};
  NewEvent event = event_of("ключ", payload);
  event.content_type = "application/octet-stream";
  event.headers = headers;
  event.aggregate_version = 7;
  for (int round = 0; round < 2; ++round) {
    const Result<PublishStatement> statement = publish_statement(event);
    ASSERT_TRUE(statement) << text_of(statement);
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;
    for (const Param& param : statement->params) {
      values.push_back(param.is_null ? nullptr : param.value.data());
      lengths.push_back(static_cast<int>(param.value.size()));
      formats.push_back(param.is_bytes ? 1 : 0);
    }
    run("BEGIN");
    ASSERT_EQ(PQsendQueryParams(app(), statement->sql.c_str(), static_cast<int>(values.size()),
                                nullptr, values.data(), lengths.data(), formats.data(), 0),
              1);
    const std::vector<Rows> all = results(1);
    const Status done = publish_outcome(app(), all.at(0).get());
    ASSERT_TRUE(done) << text_of(done);
    run("COMMIT");
    event.id = statement->id;  // the second time it is there already
    EXPECT_EQ(
        text(connection_,
             "SELECT concat_ws(' ', id, aggregate_type, aggregate_id, type, headers, "
             "encode(payload, 'hex'), aggregate_version) FROM dovetail.outbox"),
        statement->id.to_string() + R"( order ключ placed {"traceparent":"00-1"} 610062ff 7)");
  }
}

}  // namespace
}  // namespace dovetail::postgres
