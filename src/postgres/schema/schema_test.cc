#include "postgres/schema/schema.h"

#include <future>

#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

TEST(PostgresSchema, IsMadeOnceAndFoundAgain) {
  EmptyDatabase database;
  Connection connection = database.connect();
  EXPECT_TRUE(failed_with(check_schema(connection), Errc::rejected));
  EXPECT_TRUE(contains(text_of(check_schema(connection)), "dovetail init"));
  ASSERT_TRUE(create_schema(connection)) << text_of(create_schema(connection));
  EXPECT_TRUE(create_schema(connection));
  EXPECT_TRUE(check_schema(connection));
}

TEST(PostgresSchema, SeveralProcessesMayMakeItAtOnce) {
  EmptyDatabase database;
  std::vector<std::future<Status>> made;
  for (int i = 0; i < 4; ++i)
    made.push_back(std::async(std::launch::async, [&] {
      Connection connection = database.connect();
      return create_schema(connection);
    }));
  for (auto& one : made) {
    const Status status = one.get();
    EXPECT_TRUE(status) << text_of(status);
  }
}

TEST(PostgresSchema, IsMadeInsideTheCallersTransaction) {
  EmptyDatabase database;
  Connection connection = database.connect();
  must(connection, "BEGIN");
  ASSERT_TRUE(create_schema(connection));
  must(connection, "ROLLBACK");
  EXPECT_FALSE(check_schema(connection));
}

TEST(PostgresSchema, ANewerOneIsRefused) {
  EmptyDatabase database;
  Connection connection = database.connect();
  ASSERT_TRUE(create_schema(connection));
  must(connection, "UPDATE dovetail.schema_version SET version = 99, compatible_from = 98");
  EXPECT_TRUE(failed_with(create_schema(connection), Errc::corrupt));
  EXPECT_TRUE(failed_with(check_schema(connection), Errc::corrupt));
  EXPECT_TRUE(contains(text_of(check_schema(connection)), "upgrade dovetail"));
}

TEST(PostgresSchema, AMigrationDoesNotHoldUpPublishersForLong) {
  EmptyDatabase database;
  Connection connection = database.connect();
  ASSERT_TRUE(create_schema(connection));
  std::vector<Migration> steps(migrations().begin(), migrations().end());
  const std::string next =
      "ALTER TABLE dovetail.outbox ADD COLUMN trace text; UPDATE dovetail.schema_version SET "
      "version = version + 1";
  steps.push_back({kSchemaVersion + 1, next});
  Connection slow = database.connect();
  must(slow, "BEGIN; SELECT dovetail.publish('order', '1', 'placed', '{}')");
  const Status waited = create_schema(connection.get(), steps);
  EXPECT_TRUE(failed_with(waited, Errc::unavailable)) << text_of(waited);
  EXPECT_TRUE(contains(text_of(waited), "long transactions")) << text_of(waited);
  EXPECT_EQ(check_schema(connection).value_or(0), kSchemaVersion) << "all or nothing";
  must(slow, "COMMIT");
  EXPECT_TRUE(create_schema(connection.get(), steps));
  EXPECT_EQ(check_schema(connection).value_or(0), kSchemaVersion + 1);
}

TEST(PostgresSchema, AnUpdateTakesAwayWhatWasEmittedIntoTheLogAlone) {
  EmptyDatabase database;
  Connection connection = database.connect();
  ASSERT_TRUE(create_schema(connection.get(), migrations().first(5)));
  const std::string emits =
      "SELECT count(*) FROM pg_proc WHERE pronamespace = 'dovetail'::regnamespace AND proname LIKE "
      "'emit%'";
  EXPECT_EQ(number(connection, emits), 4);
  const Status updated = create_schema(connection);
  EXPECT_TRUE(updated) << text_of(updated);
  EXPECT_EQ(number(connection, emits), 0);
  EXPECT_TRUE(create_roles(connection));
}

TEST(PostgresSchema, CanBeAppliedByHand) {
  EmptyDatabase database;
  Connection connection = database.connect();
  must(connection, schema_sql());
  must(connection, roles_sql());
  EXPECT_TRUE(check_schema(connection));
}

TEST(PostgresSchema, ASchemaOfSomebodyElseIsNotTouched) {
  EmptyDatabase database;
  Connection connection = database.connect();
  must(connection, "CREATE SCHEMA dovetail; CREATE TABLE dovetail.theirs (x int)");
  EXPECT_TRUE(failed_with(create_schema(connection), Errc::rejected));
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.theirs"), 0);
}

}  // namespace
}  // namespace dovetail::postgres
