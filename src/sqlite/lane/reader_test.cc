// What the first start of a relay fixes, in a file.
#include "sqlite/lane/reader.h"

#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

class SqliteFirstStart : public ::testing::Test {
 protected:
  Status start(const Reader& reader) {
    Result<Database> database = open_store(file.path);
    if (!database) return fail(database.error());
    return ensure_reader(*database, reader);
  }
  std::string row() {
    return application.text(
        "SELECT source || ' ' || target || ' ' || filter || ' ' || passed_seq FROM dovetail_relay");
  }

  TestFile file;
  Application application{file.path};
};

TEST_F(SqliteFirstStart, FixesWhatIsReadAndWhereItGoes) {
  Reader reader{.path = file.path, .name = "r", .target = "one"};
  ASSERT_TRUE(start(reader));
  ASSERT_TRUE(start(reader));
  Reader other = reader;
  other.source = SourceKind::mailbox;
  EXPECT_TRUE(contains(text_of(start(other)), "the outbox, not the mailbox"));
  other = reader;
  other.target = "two";
  EXPECT_TRUE(failed_with(start(other), Errc::rejected));
  other.target = "";
  EXPECT_TRUE(start(other)) << "an unknown target is not checked";
  EXPECT_EQ(row(), "outbox one  0");
}

TEST_F(SqliteFirstStart, LeavesOutWhatIsThereOnlyOnce) {
  application.publish_one("k");
  application.publish_one("k");
  Reader reader{.path = file.path, .name = "r", .filter = "{}", .starts_now = true};
  ASSERT_TRUE(start(reader));
  EXPECT_EQ(row(), "outbox  {} 2");
  application.publish_one("k");
  reader.filter = "{\"types\":[\"a\"]}";
  reader.target = "one";
  ASSERT_TRUE(start(reader));
  EXPECT_EQ(row(), "outbox one {\"types\":[\"a\"]} 2") << "the target was unknown until now";
}

TEST_F(SqliteFirstStart, NeedsAName) {
  EXPECT_TRUE(failed_with(start({.path = file.path, .name = ""}), Errc::rejected));
  EXPECT_TRUE(
      failed_with(start({.path = file.path, .name = std::string(256, 'r')}), Errc::rejected));
  EXPECT_TRUE(start({.path = file.path, .name = std::string(255, 'r')}));
}

}  // namespace
}  // namespace dovetail::sqlite
