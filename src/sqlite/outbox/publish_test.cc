#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

NewEvent good() {
  NewEvent event;
  event.aggregate_type = "order";
  event.aggregate_id = "17";
  event.type = "placed";
  event.payload = R"({"total":3})";
  return event;
}

class Publish : public ::testing::Test {
 protected:
  Result<EventId> in_transaction(const NewEvent& event) {
    EXPECT_EQ(application.run("BEGIN"), SQLITE_OK);
    Result<EventId> id = publish(application.connection, event);
    EXPECT_EQ(application.run("COMMIT"), SQLITE_OK);
    return id;
  }
  void expect_rejected(const NewEvent& event, std::string_view word) {
    const Result<EventId> id = in_transaction(event);
    EXPECT_TRUE(failed_with(id, Errc::rejected)) << text_of(id);
    EXPECT_TRUE(contains(text_of(id), word)) << text_of(id);
    EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_outbox"), 0);
  }
  TestFile file;
  Application application{file.path};
};

TEST_F(Publish, AnEventExistsExactlyWhenItsTransactionCommits) {
  application.run("BEGIN");
  ASSERT_TRUE(publish(application.connection, good()));
  application.run("ROLLBACK");
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_outbox"), 0);
  const Result<EventId> id = in_transaction(good());
  ASSERT_TRUE(id) << text_of(id);
  EXPECT_EQ(application.text("SELECT id FROM dovetail_events"), id->to_string());
  EXPECT_EQ(application.text("SELECT state FROM dovetail_events"), "pending");
}

TEST_F(Publish, WithoutATransactionItSaysBeginFirst) {
  const Result<EventId> id = publish(application.connection, good());
  EXPECT_TRUE(failed_with(id, Errc::rejected));
  EXPECT_TRUE(contains(text_of(id), "BEGIN first")) << text_of(id);
}

TEST_F(Publish, ARepeatedIdWithTheSameContentIsAcceptedOnce) {
  NewEvent event = good();
  const Header headers[] = {{"traceparent", "00-ab"}};
  event.headers = headers;
  event.id = new_event_id();
  ASSERT_TRUE(in_transaction(event));
  const Result<EventId> again = in_transaction(event);
  ASSERT_TRUE(again) << text_of(again);
  EXPECT_EQ(*again, *event.id);
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_outbox"), 1);
}

TEST_F(Publish, ARepeatedIdWithOtherContentIsRejected) {
  NewEvent event = good();
  event.id = new_event_id();
  ASSERT_TRUE(in_transaction(event));
  event.payload = R"({"total":4})";
  const Result<EventId> again = in_transaction(event);
  EXPECT_TRUE(failed_with(again, Errc::rejected)) << text_of(again);
  EXPECT_TRUE(contains(text_of(again), "other content")) << text_of(again);
  EXPECT_FALSE(contains(text_of(again), "total")) << "no payload in error texts";
}

TEST_F(Publish, AnEmptyPayloadIsRejected) {
  NewEvent event = good();
  event.payload = "";
  expect_rejected(event, "empty");
}

TEST_F(Publish, ATooLargePayloadIsRejected) {
  const std::string large((1000 << 10) + 1, 'x');
  NewEvent event = good();
  event.payload = large;
  expect_rejected(event, "limit");
}

TEST_F(Publish, TooLongNamesAndKeysAreRejected) {
  const std::string type(256, 't'), key(1025, 'k');
  NewEvent event = good();
  event.type = type;
  expect_rejected(event, "type");
  event = good();
  event.aggregate_id = key;
  expect_rejected(event, "key");
}

TEST_F(Publish, InvalidUtf8IsRejected) {
  NewEvent event = good();
  event.aggregate_id = "\xff\xfe";
  expect_rejected(event, "UTF-8");
}

TEST_F(Publish, AMalformedHeaderIsRejected) {
  const Header headers[] = {{"", "value without a name"}};
  NewEvent event = good();
  event.headers = headers;
  expect_rejected(event, "header");
}

TEST_F(Publish, WithoutTablesItSaysWhatToRun) {
  Application empty(file.directory() + "/empty.db");
  empty.run("BEGIN");
  const Result<EventId> id = publish(empty.connection, good());
  EXPECT_TRUE(contains(text_of(id), "dovetail init")) << text_of(id);
}

TEST_F(Publish, AFullDiskIsUnavailable) {
  application.run("PRAGMA max_page_count=1");  // the smallest allowed value is the file's own size
  application.run("BEGIN");
  const std::string large(500'000, 'x');
  NewEvent event = good();
  event.payload = large;
  const Result<EventId> id = publish(application.connection, event);
  EXPECT_TRUE(failed_with(id, Errc::unavailable)) << text_of(id);
  EXPECT_TRUE(contains(text_of(id), "full")) << text_of(id);
}

TEST_F(Publish, AReadOnlyFileIsUnavailable) {
  Application reader("file:" + file.path + "?mode=ro");
  reader.run("BEGIN");
  const Result<EventId> id = publish(reader.connection, good());
  EXPECT_TRUE(failed_with(id, Errc::unavailable)) << text_of(id);
  EXPECT_TRUE(contains(text_of(id), "read-only")) << text_of(id);
}

TEST_F(Publish, AFileLockedByAnotherIsUnavailable) {
  Application other(file.path);
  other.run("BEGIN IMMEDIATE");
  application.run("BEGIN");
  const Result<EventId> id = publish(application.connection, good());
  EXPECT_TRUE(failed_with(id, Errc::unavailable)) << text_of(id);
  EXPECT_TRUE(contains(text_of(id), "locked")) << text_of(id);
}

TEST_F(Publish, APublisherPublishesManyInOneTransaction) {
  Result<Publisher> publisher = Publisher::open(application.connection);
  ASSERT_TRUE(publisher) << text_of(publisher);
  EXPECT_TRUE(failed_with(publisher->publish(good()), Errc::rejected)) << "no transaction yet";
  application.run("BEGIN");
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(publisher->publish(good()));
  application.run("COMMIT");
  EXPECT_EQ(application.number("SELECT count(DISTINCT id) FROM dovetail_outbox"), 100);
}

TEST_F(Publish, APlainInsertFromAnyLanguageIsAPublish) {
  ASSERT_EQ(application.run("INSERT INTO dovetail_outbox (aggregate_type, type, payload) "
                            "VALUES ('order', 'placed', '{}')"),
            SQLITE_OK);
  EXPECT_EQ(application.number("SELECT length(id) FROM dovetail_outbox"), 16);
  const std::int64_t age = to_stored(system_clock().wall()) -
                           application.number("SELECT created_at FROM dovetail_outbox");
  EXPECT_LT(std::abs(age), 60'000'000);
}

TEST_F(Publish, APlainInsertOfBadDataIsRefused) {
  const char* const bad[] = {
      "(aggregate_type, type, payload) VALUES ('order', 'placed', '')",
      "(aggregate_type, type, payload) VALUES ('order', 'placed', NULL)",
      "(aggregate_type, type, payload) VALUES ('order', 'placed', 7)",
      "(aggregate_type, type, payload) VALUES ('order', '', '{}')",
      "(aggregate_type, type, payload) VALUES ('', 'placed', '{}')",
      "(id, aggregate_type, type, payload) VALUES (x'00', 'order', 'placed', '{}')",
      "(id, aggregate_type, type, payload) VALUES ('0123456789abcdef', 'order', 'placed', '{}')",
      "(aggregate_type, type, payload, headers) VALUES ('order', 'placed', '{}', 'no json')",
      "(aggregate_type, type, payload, headers) VALUES ('order', 'placed', '{}', '[1]')",
      "(aggregate_type, type, payload, created_at) VALUES ('order', 'placed', '{}', 'today')"};
  for (const char* values : bad)
    EXPECT_EQ(application.run(std::string("INSERT INTO dovetail_outbox ") + values),
              SQLITE_CONSTRAINT)
        << values;
}

TEST_F(Publish, AClaimIsTrueOnceForEachConsumer) {
  const EventId id = new_event_id();
  EXPECT_TRUE(failed_with(claim(application.connection, "billing", id), Errc::rejected));
  application.run("BEGIN");
  EXPECT_EQ(claim(application.connection, "billing", id).value(), Claim::State::first);
  application.run("ROLLBACK");
  application.run("BEGIN");
  EXPECT_EQ(claim(application.connection, "billing", id).value(), Claim::State::first)
      << "it was undone";
  EXPECT_EQ(claim(application.connection, "billing", id).value(), Claim::State::duplicate);
  EXPECT_EQ(claim(application.connection, "shipping", id).value(), Claim::State::first);
  application.run("COMMIT");
  EXPECT_EQ(application.number("SELECT duplicates FROM dovetail_consumer WHERE name='billing'"), 1);
}

TEST_F(Publish, NumbersAreNeverGivenTwiceEvenAfterAPrune) {
  application.publish_one("1");
  application.run("DELETE FROM dovetail_outbox");
  application.publish_one("1");
  EXPECT_EQ(application.number("SELECT seq FROM dovetail_outbox"), 2);
}

}  // namespace
}  // namespace dovetail::sqlite
