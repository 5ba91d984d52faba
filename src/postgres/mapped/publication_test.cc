#include "postgres/mapped/publication.h"

#include <string>

#include "postgres/testing/test_database.h"
#include "postgres/testing/test_version.h"

namespace dovetail::postgres {
namespace {

class MappedPublication : public ::testing::Test {
 protected:
  void SetUp() override {
    must(connection, "CREATE TABLE events (id uuid PRIMARY KEY, payload text, more text)");
    mapping.table = "events";
    mapping.from_wal = true;
  }
  Status ensure(Connection& with) {
    const Result<CatalogTable> table = look_up(with, mapping);
    if (!table) return fail(table.error());
    return ensure_publication(with, "shop", *table, mapping);
  }
  void refused(std::initializer_list<std::string_view> says) {
    const Status done = ensure(connection);
    EXPECT_TRUE(failed_with(done, Errc::rejected)) << text_of(done);
    for (const std::string_view part : says)
      EXPECT_TRUE(contains(text_of(done), part)) << part << " in: " << text_of(done);
  }
  std::string own() const { return publication_of("shop", mapping); }

  EmptyDatabase database;
  Connection connection = database.connect();
  TableMapping mapping;
};

TEST_F(MappedPublication, IsMadeOfInsertsOnceAndFoundAgain) {
  ASSERT_TRUE(ensure(connection));
  EXPECT_EQ(text(connection,
                 "SELECT string_agg(pubname || ' ' || pubinsert || ' ' || pubupdate || ' ' || "
                 "pubviaroot, ',') FROM pg_publication"),
            own() + " true false true");
  EXPECT_TRUE(ensure(connection));
}

TEST_F(MappedPublication, RoleThatMayNotMakeItIsToldTheStatement) {
  const std::string role = "r_" + database.name;
  must(connection, "CREATE ROLE " + role + " LOGIN; GRANT SELECT ON events TO " + role);
  Connection plain = database.connect(role);
  const Status done = ensure(plain);
  EXPECT_TRUE(failed_with(done, Errc::rejected)) << text_of(done);
  const std::string statement =
      "CREATE PUBLICATION \"" + own() +
      "\" FOR TABLE \"public\".\"events\" WITH (publish = 'insert', publish_via_partition_root = "
      "true)";
  EXPECT_TRUE(contains(text_of(done), statement)) << text_of(done);
  must(connection, statement);
  EXPECT_TRUE(ensure(plain));
  must(connection, "DROP OWNED BY " + role + "; DROP ROLE " + role);
}

TEST_F(MappedPublication, OneThatLeavesSomethingOutIsRefused) {
  must(connection, "CREATE TABLE other (id int PRIMARY KEY); CREATE PUBLICATION \"" + own() +
                       "\" FOR TABLE other WITH (publish = 'update')");
  refused({"publishes no inserts"});
  must(connection, "ALTER PUBLICATION \"" + own() + "\" SET (publish = 'insert')");
  refused({"ADD TABLE \"public\".\"events\""});
}

TEST_F(MappedPublication, OneOfSomeRowsOrOfTooFewColumnsIsRefused) {
  if (is_before(connection, 15)) GTEST_SKIP() << "PostgreSQL 15 brought such publications";
  must(connection, "CREATE PUBLICATION \"" + own() +
                       "\" FOR TABLE events WHERE (payload <> 'x') WITH (publish = 'insert')");
  refused({"filter for rows"});
  must(connection, "ALTER PUBLICATION \"" + own() + "\" SET TABLE events (id, more)");
  refused({"leaves out columns"});
  must(connection, "ALTER PUBLICATION \"" + own() + "\" SET TABLE events (id, payload)");
  EXPECT_TRUE(ensure(connection)) << "what the mapping does not name is not needed";
}

TEST_F(MappedPublication, ForeignOneMustBeThereAndMayHaveMore) {
  mapping.publication = "dbz_publication";
  refused({"\"dbz_publication\" does not exist", "key publication"});
  must(connection,
       "CREATE TABLE parted (id int) PARTITION BY LIST (id); CREATE TABLE part PARTITION OF parted "
       "FOR VALUES IN (1); CREATE PUBLICATION dbz_publication FOR ALL TABLES");
  const Status done = ensure(connection);
  EXPECT_TRUE(done) << text_of(done);
}

TEST_F(MappedPublication, PartitionsUnderTheirOwnNamesAreRefused) {
  must(connection,
       "CREATE TABLE parted (id int, payload text) PARTITION BY LIST (id); CREATE TABLE part "
       "PARTITION OF parted FOR VALUES IN (1)");
  mapping.table = "parted";
  mapping.publication = "p";
  must(connection, "CREATE PUBLICATION p FOR TABLE parted");
  refused({"publish_via_partition_root"});
  must(connection, "ALTER PUBLICATION p SET (publish_via_partition_root = true)");
  EXPECT_TRUE(ensure(connection));
}

}  // namespace
}  // namespace dovetail::postgres
