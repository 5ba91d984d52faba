#include <libpq-fe.h>

#include "dovetail/postgres.h"
#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class PostgresPublish : public testing::Test {
 protected:
  PostgresPublish() : connection_(database_.connect()) { EXPECT_TRUE(create_schema(connection_)); }

  static NewEvent event(std::string_view payload = "{}") {
    NewEvent event;
    event.aggregate_type = "order";
    event.aggregate_id = "17";
    event.type = "placed";
    event.payload = payload;
    return event;
  }
  std::int64_t count() { return number(connection_, "SELECT count(*) FROM dovetail.outbox"); }
  // The error of a statement, or "ok".
  std::string result_of(const std::string& sql) { return text_of(connection_.execute(sql)); }

  TestDatabase database_;
  Connection connection_;
};

TEST_F(PostgresPublish, AnEventExistsIfAndOnlyIfItsTransactionCommits) {
  must(connection_, "BEGIN");
  ASSERT_TRUE(publish(connection_.get(), event()));
  must(connection_, "ROLLBACK");
  EXPECT_EQ(count(), 0);
  must(connection_, "BEGIN");
  ASSERT_TRUE(publish(connection_.get(), event()));
  must(connection_, "COMMIT");
  EXPECT_EQ(count(), 1);
}

TEST_F(PostgresPublish, PublishAndCommitIsBothOrNeither) {
  must(connection_, "CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)");
  EXPECT_TRUE(failed_with(publish_and_commit(connection_.get(), event()), Errc::rejected))
      << "no transaction is open";
  must(connection_, "BEGIN; INSERT INTO orders VALUES (1)");
  const Result<EventId> id = publish_and_commit(connection_.get(), event());
  ASSERT_TRUE(id) << text_of(id);
  EXPECT_EQ(PQtransactionStatus(connection_.get()), PQTRANS_IDLE);
  EXPECT_EQ(text(connection_, "SELECT id::text FROM dovetail.outbox"), id->to_string());

  // The event is refused: nothing commits.
  NewEvent other = event("other");
  other.id = *id;
  must(connection_, "BEGIN; INSERT INTO orders VALUES (2)");
  EXPECT_TRUE(contains(text_of(publish_and_commit(connection_.get(), other)), "other content"));
  EXPECT_EQ(PQtransactionStatus(connection_.get()), PQTRANS_INERROR);
  must(connection_, "ROLLBACK");

  // The commit is refused: nothing is published.
  must(connection_, "BEGIN; INSERT INTO orders VALUES (1)");
  EXPECT_TRUE(failed_with(publish_and_commit(connection_.get(), event()), Errc::rejected));
  EXPECT_EQ(PQtransactionStatus(connection_.get()), PQTRANS_IDLE);
  EXPECT_EQ(number(connection_, "SELECT count(*) FROM orders"), 1);
  EXPECT_EQ(count(), 1);
}

TEST_F(PostgresPublish, PublishAndCommitWithoutAnAnswerIsInDoubt) {
  must(connection_, "BEGIN");
  Connection other = database_.connect();
  must(other,
       "SELECT pg_terminate_backend(" + std::to_string(PQbackendPID(connection_.get())) + ")");
  const Result<EventId> id = publish_and_commit(connection_.get(), event());
  EXPECT_TRUE(failed_with(id, Errc::in_doubt)) << text_of(id);
  EXPECT_EQ(number(other, "SELECT count(*) FROM dovetail.outbox"), 0);
}

TEST_F(PostgresPublish, APublisherDoesTheSameWithPreparedStatements) {
  ASSERT_TRUE(Publisher::open(connection_.get()));
  const Result<Publisher> publisher = Publisher::open(connection_.get());
  ASSERT_TRUE(publisher) << "again: " << text_of(publisher);
  EXPECT_TRUE(failed_with(publisher->publish(event()), Errc::rejected)) << "no transaction is open";
  must(connection_, "BEGIN");
  EXPECT_TRUE(failed_with(Publisher::open(connection_.get()), Errc::rejected));
  const Result<EventId> first = publisher->publish(event("1"));
  ASSERT_TRUE(first) << text_of(first);
  NewEvent chosen = event("2");
  chosen.id = new_event_id();
  const std::vector<Header> headers = {{"b", "1"}, {"a", "2"}};
  chosen.headers = headers;
  EXPECT_TRUE(publisher->publish(chosen));
  EXPECT_TRUE(publisher->publish(chosen)) << "the same again";
  const Result<EventId> last = publisher->publish_and_commit(event("3"));
  ASSERT_TRUE(last) << text_of(last);
  EXPECT_EQ(text(connection_,
                 "SELECT string_agg(convert_from(payload, 'UTF8'), ' ' ORDER BY seq) FROM "
                 "dovetail.outbox"),
            "1 2 3");
  EXPECT_EQ(text(connection_, "SELECT id::text FROM dovetail.outbox WHERE payload = '3'"),
            last->to_string());
  chosen.payload = "other";
  must(connection_, "BEGIN");
  EXPECT_TRUE(contains(text_of(publisher->publish_and_commit(chosen)), "other content"));
  must(connection_, "ROLLBACK");
  EXPECT_EQ(count(), 3);
}

TEST_F(PostgresPublish, WithoutATransactionItIsRefused) {
  const Result<EventId> refused = publish(connection_.get(), event());
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "BEGIN"));
  must(connection_, "BEGIN");
  EXPECT_FALSE(connection_.execute("SELECT 1/0"));
  EXPECT_TRUE(failed_with(publish(connection_.get(), event()), Errc::rejected));
  must(connection_, "ROLLBACK");
}

TEST_F(PostgresPublish, TheSameIdWithTheSameContentIsAcceptedOnce) {
  NewEvent one = event();
  one.id = new_event_id();
  const std::vector<Header> headers = {{"trace", "1"}};
  one.headers = headers;
  for (int i = 0; i < 2; ++i) {
    must(connection_, "BEGIN");
    const Result<EventId> id = publish(connection_.get(), one);
    ASSERT_TRUE(id) << text_of(id);
    EXPECT_EQ(*id, *one.id);
    must(connection_, "COMMIT");
  }
  EXPECT_EQ(count(), 1);
  must(connection_,
       "SELECT dovetail.publish('order', '17', 'placed', '{}'::text, "
       "'{\"trace\": \"1\"}', id => '" +
           one.id->to_string() + "')");
  EXPECT_EQ(count(), 1) << "from SQL as well";
}

TEST_F(PostgresPublish, AnIdWithOtherContentIsRefused) {
  NewEvent one = event();
  one.id = new_event_id();
  must(connection_, "BEGIN");
  ASSERT_TRUE(publish(connection_.get(), one));
  must(connection_, "COMMIT; BEGIN");
  one.payload = "secret";
  const Result<EventId> refused = publish(connection_.get(), one);
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "other content")) << text_of(refused);
  EXPECT_FALSE(contains(text_of(refused), "secret"));
  must(connection_, "ROLLBACK");
  EXPECT_TRUE(
      contains(result_of("SELECT dovetail.publish('order', '17', 'placed', '\"x\"', id => '" +
                         one.id->to_string() + "')"),
               "other content"));
}

TEST_F(PostgresPublish, ABatchGoesInOneStatementInItsOrder) {
  std::vector<std::string> payloads;
  std::vector<NewEvent> events;
  for (int i = 0; i < 500; ++i) payloads.push_back(std::to_string(i));
  for (const std::string& payload : payloads) events.push_back(event(payload));
  must(connection_, "BEGIN");
  const auto ids = publish(connection_.get(), events);
  ASSERT_TRUE(ids) << text_of(ids);
  must(connection_, "COMMIT");
  const Result<Rows> rows =
      connection_.query("SELECT id, payload FROM dovetail.outbox ORDER BY seq");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 500U);
  for (std::size_t i = 0; i < 500; ++i) {
    EXPECT_EQ(rows->uuid(i, 0), (*ids)[i]);
    EXPECT_EQ(rows->bytea(i, 1), payloads[i]);
  }
}

TEST_F(PostgresPublish, ABatchIsAllOrNothing) {
  must(connection_, "BEGIN");
  const auto refused = publish(connection_.get(), std::vector<NewEvent>{event(), event("")});
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(publish(connection_.get(), std::span<const NewEvent>{}));
  must(connection_, "COMMIT");
  EXPECT_EQ(count(), 0);
}

TEST_F(PostgresPublish, PayloadsAreKeptByteForByte) {
  must(connection_, "SELECT dovetail.publish('a', '1', 't', E'{\"x\":  1}\\n')");
  EXPECT_EQ(text(connection_, "SELECT convert_from(payload, 'UTF8') FROM dovetail.outbox"),
            "{\"x\":  1}\n");
  const std::string bytes("\0\xff\xfe", 3);
  must(connection_, "TRUNCATE dovetail.outbox; BEGIN");
  ASSERT_TRUE(publish(connection_.get(), event(bytes)));
  must(connection_, "COMMIT");
  EXPECT_EQ(text(connection_, "SELECT payload FROM dovetail.outbox"), bytes);
}

TEST_F(PostgresPublish, ContentTypesFollowThePayload) {
  must(connection_, "SELECT dovetail.publish('a', '1', 'b', '\\x00'::bytea)");
  must(connection_, "SELECT dovetail.publish('a', '1', 'j', '{}'::jsonb)");
  must(connection_, "SELECT dovetail.publish('a', '1', 't', 'hi', content_type => 'text/plain')");
  EXPECT_EQ(
      text(connection_, "SELECT string_agg(content_type, ' ' ORDER BY seq) FROM dovetail.outbox"),
      "application/octet-stream application/json text/plain");
}

TEST_F(PostgresPublish, TextThatIsDeclaredAsJsonMustBeJson) {
  const auto refusal = [&](const std::string& arguments) {
    return result_of("SELECT dovetail.publish('a', " + arguments + ")");
  };
  for (const std::string id : {"'1'", "1", "gen_random_uuid()"}) {
    const std::string refused = refusal(id + ", 't', '{\"hush\": '");
    EXPECT_TRUE(contains(refused, "is not valid JSON (22P02)")) << refused;
    EXPECT_TRUE(contains(refused, "content_type => 'text/plain'")) << refused;
    EXPECT_FALSE(contains(refused, "hush")) << "a payload is never shown";
  }
  for (const std::string type : {"APPLICATION/JSON", "application/json; charset=utf-8",
                                 "application/problem+json", "application/cloudevents+json ;a=b"})
    EXPECT_TRUE(contains(refusal("'1', 't', 'broken', content_type => '" + type + "'"), "22P02"))
        << type;
  for (const std::string type : {"text/plain", "application/jsonl", "text/x; of=/json"})
    EXPECT_EQ(refusal("'1', 't', 'broken', content_type => '" + type + "'"), "ok") << type;
  // Bytes are not checked.
  EXPECT_EQ(refusal("'1', 't', 'broken'::bytea, content_type => 'application/json'"), "ok");
  EXPECT_EQ(count(), 4);
}

// The short road of publish() and the long one.
TEST_F(PostgresPublish, WhatIsSaidAndWhatIsLeftOutMakeTheSameEvent) {
  const std::string columns =
      "SELECT count(*)::text || ' ' || count(DISTINCT (topic, aggregate_type, aggregate_id, type, "
      "content_type, headers, payload, aggregate_version))::text FROM dovetail.outbox";
  const std::string four = "'order', '17', 'placed', ";
  for (const std::string payload : {"'{}'", "'{}'::jsonb", "'{}'::bytea"}) {
    const std::string event = four + payload + ", content_type => 'application/json'";
    must(connection_, "SELECT dovetail.publish(" + event + ")");
    must(connection_, "SELECT dovetail.publish(" + event + ", headers => '{}')");
    must(connection_,
         "SELECT dovetail.publish(" + event +
             ", headers => NULL, topic => NULL, id => NULL, aggregate_version => NULL)");
    must(connection_, "SELECT dovetail.publish(" + event + ", id => dovetail.uuid7())");
    must(connection_, "SELECT dovetail.publish(" + event + ", deliver_at => '2020-01-01')");
  }
  must(connection_, "SELECT dovetail.publish(" + four + "'{}')");
  must(connection_,
       "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) VALUES (" + four +
           "'{}')");
  EXPECT_EQ(text(connection_, columns), "17 1");
}

// The server prepares what is left in a plan anew for each event.
TEST_F(PostgresPublish, ThePlannerComputesDefaultsAndInlinesConversions) {
  const auto plan = [&](const std::string& statement) {
    const Result<Rows> rows = connection_.query("EXPLAIN (VERBOSE, COSTS OFF) " + statement);
    std::string lines;
    for (std::size_t i = 0; rows && i < rows->size(); ++i) lines += rows->text(i, 0);
    return lines;
  };
  const std::string insert = plan(
      "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) VALUES ('a', '1', "
      "'t', '{}')");
  EXPECT_TRUE(contains(insert, "nextval")) << insert;
  EXPECT_FALSE(contains(insert, "default_")) << insert;
  // An argument that is volatile or dear must not stop it.
  must(connection_, "CREATE SEQUENCE numbers");
  const std::string published = plan(
      "SELECT dovetail.publish('a', nextval('numbers'), 't', jsonb_build_object('n', random()))");
  EXPECT_TRUE(contains(published, "convert_to")) << published;
}

TEST_F(PostgresPublish, IdsOfAggregatesMayBeNumbersAndUuids) {
  const std::string uuid = "01890000-0000-7000-8000-000000000001";
  const std::pair<std::string, std::string> ids[] = {
      {"17", "17"},
      {"17::smallint", "17"},
      {"(-9223372036854775807)::bigint", "-9223372036854775807"},
      {"'17'", "17"},
      {"'17'::varchar", "17"},
      {"NULL", ""},
      {"NULL::bigint", ""},
      {"'" + uuid + "'::uuid", uuid}};
  for (const auto& [id, stored] : ids) {
    for (const std::string payload : {"'{}'", "'{}'::jsonb", "'{}'::bytea"}) {
      must(connection_, "SELECT dovetail.publish('order', " + id + ", 'placed', " + payload + ")");
      EXPECT_EQ(text(connection_,
                     "SELECT aggregate_id || ' ' || convert_from(payload, 'UTF8') "
                     "FROM dovetail.outbox ORDER BY seq DESC LIMIT 1"),
                stored + " {}")
          << id << " " << payload;
    }
  }
  // Drivers that send no types, and drivers that do.
  EXPECT_TRUE(connection_.query("SELECT dovetail.publish($1, $2, $3, $4)",
                                Params().unknown("a").unknown("17").unknown("t").unknown("{}")));
  EXPECT_TRUE(connection_.query("SELECT dovetail.publish($1, $2, $3, $4, topic => 'x')",
                                Params().text("a").int4(17).text("t").text("{}")));
}

// SQL refuses what validate() refuses.
TEST_F(PostgresPublish, BadInputIsRefusedWithAWordAboutIt) {
  const auto refusal = [&](const std::string& arguments) {
    return result_of("SELECT dovetail.publish(" + arguments + ")");
  };
  EXPECT_TRUE(contains(refusal("'', '1', 't', '{}'"), "dovetail.aggregate_type violates"));
  EXPECT_TRUE(contains(refusal("NULL, '1', 't', '{}'"), "aggregate_type"));
  EXPECT_TRUE(contains(refusal("'a', '1', '', '{}'"), "dovetail.event_type violates"));
  EXPECT_TRUE(contains(refusal("'a', '1', 't', ''"), "has a byte at least"));
  EXPECT_TRUE(contains(refusal("'a', '1', 't', NULL::jsonb"), "payload"));
  EXPECT_TRUE(contains(refusal("repeat('x', 256), '1', 't', '{}'"), "255"));
  EXPECT_TRUE(contains(refusal("'a', repeat('x', 1025), 't', '{}'"), "1024"));
  EXPECT_TRUE(contains(refusal("'a', '1', repeat('x', 256), '{}'"), "255"));
  EXPECT_TRUE(contains(refusal("'a', '1', 't', '{}', topic => repeat('x', 256)"), "255"));
  EXPECT_TRUE(contains(refusal("'a', '1', 't', '{}', content_type => ''"), "content_type"));
  EXPECT_TRUE(contains(refusal("'a', '1', 't', repeat('1', 1024001)"), "the limit is 1024000"));
  EXPECT_EQ(refusal("'a', '1', 't', repeat('1', 1024000)"), "ok");
  for (const char* headers :
       {"'{\"a\": 1}'", "'{\"a\": {\"b\": \"c\"}}'", "'[\"a\"]'", "'{\"a b\": \"c\"}'",
        "'{\"\": \"c\"}'", "'{\"a\": \"x\\ny\"}'", "'{\"a\": \"\\u007f\"}'", "'{\"a\": null}'"})
    EXPECT_TRUE(contains(refusal("'a', '1', 't', '{}', " + std::string(headers)), "a flat object"))
        << headers;
  EXPECT_TRUE(contains(refusal("'a', '1', 't', '{}', jsonb_build_object('a', repeat('x', 20000))"),
                       "16384"));
  EXPECT_EQ(count(), 1);
}

TEST_F(PostgresPublish, APlainInsertIsCheckedToo) {
  const auto refusal = [&](const std::string& values) {
    return result_of(
        "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload, "
        "headers) VALUES (" +
        values + ")");
  };
  EXPECT_EQ(refusal("'a', '1', 't', '{}', ''"), "ok");
  EXPECT_EQ(refusal("'a', '1', 't', '{}', '{\"a\": \"b\"}'"), "ok");
  EXPECT_EQ(refusal("'a', '1', 't', '{}', '{\"a\":\"b\",\"c\": \"\\u00e9 \\\"\"}'"), "ok");
  EXPECT_TRUE(contains(refusal("'', '1', 't', '{}', ''"), "dovetail.aggregate_type violates"));
  EXPECT_TRUE(contains(refusal("NULL, '1', 't', '{}', ''"), "aggregate_type"));
  EXPECT_TRUE(contains(refusal("'a', '1', 't', '', ''"), "has a byte at least"));
  EXPECT_TRUE(contains(refusal("'a', '1', 't', repeat('x', 1024001)::bytea, ''"), "1024000"));
  for (const char* headers : {"'[]'", "'{\"a\": 1}'", "'{\"a\": \"b\", \"c\": {}}'", "'\"a\"'"})
    EXPECT_TRUE(contains(refusal("'a', '1', 't', '{}', " + std::string(headers)), "a flat object"))
        << headers;
  EXPECT_TRUE(contains(refusal("'a', '1', 't', '{}', E'{\"a\": \"b\\tc\"}'"), "22P02"));
  EXPECT_TRUE(contains(refusal("'a', '1', 't', '{}', 'nonsense'"), "22P02"));
  EXPECT_EQ(count(), 3);
}

// Checking it when it is due would be too late: it would block everything behind it.
TEST_F(PostgresPublish, AnEventForLaterIsCheckedWhenItIsPublished) {
  const auto refusal = [&](const std::string& values, const std::string& when) {
    return result_of("SELECT dovetail.publish(" + values + ", deliver_at => " + when + ")");
  };
  const std::string later = "now() + interval '1 h'";
  EXPECT_TRUE(contains(refusal("'', '', 't', '{}'", later), "dovetail.aggregate_type violates"));
  EXPECT_TRUE(contains(refusal("'a', '', 't', '{}', '[]'", later), "a flat object"));
  EXPECT_TRUE(contains(refusal("'a', '', 't', '{}'", "'infinity'"), "never comes"));
  EXPECT_EQ(refusal("'a', '', 't', '{}'", later), "ok");
  EXPECT_EQ(number(connection_, "SELECT count(*) FROM dovetail.delayed"), 1);
}

TEST_F(PostgresPublish, InvalidTextNeverReachesTheServer) {
  NewEvent bad = event();
  bad.type = "\xff";
  must(connection_, "BEGIN");
  EXPECT_TRUE(failed_with(publish(connection_.get(), bad), Errc::rejected));
  bad.type = std::string_view("a\0b", 3);
  EXPECT_TRUE(failed_with(publish(connection_.get(), bad), Errc::rejected));
  EXPECT_TRUE(publish(connection_.get(), event())) << "the transaction is still usable";
  must(connection_, "COMMIT");
}

TEST_F(PostgresPublish, AFullBacklogRefusesMore) {
  must(connection_, "SELECT dovetail.set_backlog_limit(5)");
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(result_of("SELECT dovetail.publish('a', '1', 't', '{}')"), "ok");
  const std::string refused = result_of("SELECT dovetail.publish('a', '1', 't', '{}')");
  EXPECT_TRUE(contains(refused, "outbox is full")) << refused;
  EXPECT_TRUE(contains(refused, "relay runs")) << refused;
  must(connection_, "BEGIN");
  EXPECT_TRUE(failed_with(publish(connection_.get(), event()), Errc::unavailable));
  must(connection_, "ROLLBACK");
  must(connection_, "SELECT dovetail.set_backlog_limit(NULL)");
  EXPECT_EQ(result_of("SELECT dovetail.publish('a', '1', 't', '{}')"), "ok");
}

TEST_F(PostgresPublish, AnEventForLaterWaitsOutsideTheOutbox) {
  NewEvent later = event();
  later.id = new_event_id();
  must(connection_, "BEGIN");
  for (int i = 0; i < 2; ++i) {
    const Result<EventId> id =
        publish_at(connection_.get(), later, system_clock().wall() + std::chrono::hours(1));
    EXPECT_TRUE(id) << text_of(id);
  }
  must(connection_, "COMMIT");
  EXPECT_EQ(count(), 0);
  EXPECT_EQ(number(connection_, "SELECT dovetail.release_delayed(100)"), 0);
  must(connection_, "UPDATE dovetail.delayed SET deliver_at = now()");
  EXPECT_EQ(number(connection_, "SELECT dovetail.release_delayed(100)"), 1);
  EXPECT_EQ(count(), 1);
  must(connection_, "BEGIN");
  EXPECT_TRUE(publish(connection_.get(), later)) << "it is known, also after it moved";
  must(connection_, "COMMIT");
  EXPECT_EQ(count(), 1);
}

TEST_F(PostgresPublish, IdsMadeByTheDatabaseAreOfVersion7AndBeginWithTheirTime) {
  const std::int64_t before = system_clock().wall().time_since_epoch().count() / 1000;
  const Result<Rows> rows = connection_.query("SELECT dovetail.uuid7()");
  ASSERT_TRUE(rows);
  const EventId id = rows->uuid(0, 0);
  EXPECT_EQ(id.bytes[6] >> 4, 7);
  EXPECT_EQ(id.bytes[8] >> 6, 2);
  std::int64_t ms = 0;
  for (std::size_t i = 0; i < 6; ++i) ms = ms << 8 | id.bytes[i];
  EXPECT_NEAR(static_cast<double>(ms), static_cast<double>(before), 60'000);
}

}  // namespace
}  // namespace dovetail::postgres
