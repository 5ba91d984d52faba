#include "postgres/mapped/catalog.h"

#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

class MappedCatalog : public ::testing::Test {
 protected:
  // A table of the preset "sent_at" without a type.
  void make(const std::string& columns) {
    must(application, "CREATE TABLE t (" + columns + ", sent_at timestamptz)");
    mapping.type.clear();
  }
  void refused(std::initializer_list<std::string_view> says, Access access = Access::mark,
               const std::string& user = "") {
    Connection connection = database.connect(user);
    const Result<CatalogTable> found = look_up(connection, mapping, access);
    EXPECT_TRUE(failed_with(found, Errc::rejected)) << text_of(found);
    for (const std::string_view part : says)
      EXPECT_TRUE(contains(text_of(found), part)) << part << " in: " << text_of(found);
  }

  TestDatabase database;
  Connection application = database.connect();
  TableMapping mapping = *mapping_preset("sent_at", "t");
};

TEST_F(MappedCatalog, UnknownTableIsNamed) {
  refused({"\"t\"", "schema.table"});
  mapping.table = "nowhere.t";
  refused({"nowhere.t"});
}

TEST_F(MappedCatalog, UnknownColumnIsNamedBesideTheOnesThereAre) {
  make("id uuid PRIMARY KEY, payload text, kind text");
  mapping.type = "event_type";
  refused({"\"event_type\"", "id, payload, kind, sent_at"});
}

TEST_F(MappedCatalog, TypesThatCannotBeAreRefused) {
  make("id float8 PRIMARY KEY, payload text");
  refused({"\"id\"", "double precision"});
  must(application,
       "ALTER TABLE t ALTER id TYPE bigint, ALTER payload TYPE xml USING payload::xml");
  refused({"\"payload\"", "xml"});
}

TEST_F(MappedCatalog, TableWithoutAUniqueIdIsRefused) {
  make("id uuid, payload text");
  refused({"PRIMARY KEY"});
}

TEST_F(MappedCatalog, ViewIsRefused) {
  make("id uuid PRIMARY KEY, payload text");
  must(application, "CREATE VIEW v AS SELECT * FROM t");
  mapping.table = "v";
  refused({"is not a table"});
}

TEST_F(MappedCatalog, MissingRightIsNamed) {
  make("id uuid PRIMARY KEY, payload text");
  must(application,
       "DO $$ BEGIN CREATE ROLE mapped_reader LOGIN; EXCEPTION WHEN duplicate_object THEN END $$");
  refused({"GRANT SELECT, UPDATE"}, Access::mark, "mapped_reader");
  refused({"GRANT SELECT ON"}, Access::read, "mapped_reader");
  must(application, "GRANT SELECT ON t TO mapped_reader");
  refused({"GRANT UPDATE"}, Access::mark, "mapped_reader");
  Connection reader = database.connect("mapped_reader");
  EXPECT_TRUE(look_up(reader, mapping, Access::read));
  mapping.delete_when_done = true;
  refused({"GRANT DELETE"}, Access::mark, "mapped_reader");
}

}  // namespace
}  // namespace dovetail::postgres
