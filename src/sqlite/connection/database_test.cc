#include "sqlite/connection/database.h"

#include <fstream>
#include <iterator>

#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

TEST(Schema, CreatingItTwiceChangesNothing) {
  TestFile file;
  Application application(file.path);
  application.publish_one("1");
  EXPECT_TRUE(create_schema(application.connection));
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_outbox"), 1);
}

TEST(Schema, ANewerVersionIsRefusedWithBothVersions) {
  TestFile file;
  Application application(file.path);
  application.run("UPDATE dovetail_schema SET version = 99");
  const Status created = create_schema(application.connection);
  EXPECT_TRUE(failed_with(created, Errc::corrupt)) << text_of(created);
  EXPECT_TRUE(contains(text_of(created), "version 99")) << text_of(created);
  EXPECT_TRUE(contains(text_of(created), "version " + std::to_string(kSchemaVersion)))
      << text_of(created);
  EXPECT_TRUE(contains(text_of(created), "upgrade dovetail")) << text_of(created);
  const Result<Database> opened = open_store(file.path);
  EXPECT_TRUE(failed_with(opened, Errc::corrupt)) << text_of(opened);
}

TEST(Schema, AnOlderVersionIsRefusedUntilItIsUpdatedAndKeepsWhatItHolds) {
  TestFile file;
  const std::string path = file.directory() + "/old.db";
  Application application(path);
  std::ifstream script(DOVETAIL_SQLITE_FOLDER "/schema/v1.sql");
  const std::string first((std::istreambuf_iterator<char>(script)), {});
  ASSERT_EQ(application.run(first), SQLITE_OK) << sqlite3_errmsg(application.connection);
  application.run(
      "INSERT INTO dovetail_reader (name, stream, settled, epoch) VALUES ('relay', 'outbox', 7, "
      "3)");
  application.run("CREATE VIEW of_the_service AS SELECT reader AS name FROM dovetail_parked");
  const Result<Database> opened = open_store(path);
  EXPECT_TRUE(failed_with(opened, Errc::unavailable)) << text_of(opened);
  EXPECT_TRUE(contains(text_of(opened), "version 1")) << text_of(opened);
  EXPECT_TRUE(contains(text_of(opened), "dovetail init")) << text_of(opened);

  const Status updated = create_schema(application.connection);
  ASSERT_TRUE(updated) << text_of(updated);
  EXPECT_TRUE(open_store(path));
  EXPECT_EQ(application.text("SELECT source || passed_seq || epoch FROM dovetail_relay"),
            "outbox73");
  EXPECT_EQ(application.number("SELECT count(name) FROM of_the_service"), 0);
  application.publish_one("1");
  EXPECT_EQ(application.text("SELECT relay || state FROM dovetail_events"), "relaydelivered");
  EXPECT_EQ(application.run("INSERT INTO dovetail_relay (relay, source) VALUES ('in', 'broker')"),
            SQLITE_OK);
}

TEST(Schema, ItCanBeMadeInsideTheCallersTransaction) {
  TestFile file;
  Application application(file.directory() + "/other.db");
  application.run("BEGIN");
  ASSERT_TRUE(create_schema(application.connection));
  application.run("ROLLBACK");
  EXPECT_EQ(application.number("SELECT count(*) FROM sqlite_schema"), 0);
}

TEST(Schema, SeveralMayMakeItAtOnce) {
  TestFile file;
  for (int round = 0; round < 5; ++round) {
    const std::string path = file.directory() + "/shared" + std::to_string(round) + ".db";
    std::vector<std::jthread> services;
    for (int i = 0; i < 6; ++i)
      services.emplace_back([&] {
        const Status created = create_store(path);
        EXPECT_TRUE(created) << text_of(created);
      });
  }
}

TEST(Connection, IsPreparedForTheWal) {
  TestFile file;
  Application application(file.directory() + "/other.db");
  application.run("PRAGMA foreign_keys=ON");
  const Status prepared = prepare_connection(application.connection);
  ASSERT_TRUE(prepared) << text_of(prepared);
  EXPECT_EQ(application.text("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(application.text("PRAGMA wal_autocheckpoint"), "0");
  EXPECT_EQ(application.text("PRAGMA synchronous"), "2");
  EXPECT_EQ(application.text("PRAGMA busy_timeout"), "5000");
  EXPECT_EQ(application.text("PRAGMA foreign_keys"), "1") << "not ours to change";
}

TEST(Open, AMissingFileIsUnavailable) {
  const Result<Database> opened = open_store("/nonexistent/directory/service.db");
  EXPECT_TRUE(failed_with(opened, Errc::unavailable)) << text_of(opened);
  EXPECT_TRUE(contains(text_of(opened), "check its path")) << text_of(opened);
}

TEST(Open, AFileThatIsNoDatabaseIsCorrupt) {
  TestFile file;
  const std::string path = file.directory() + "/letter.txt";
  std::ofstream(path) << std::string(10'000, 'a');
  const Result<Database> opened = open_store(path);
  EXPECT_TRUE(failed_with(opened, Errc::corrupt)) << text_of(opened);
  EXPECT_TRUE(contains(text_of(opened), "not a SQLite database")) << text_of(opened);
}

TEST(Open, AFileWithoutTablesSaysWhatToRun) {
  TestFile file;
  Application(file.directory() + "/empty.db").run("CREATE TABLE mine (x)");
  const Result<Database> opened = open_store(file.directory() + "/empty.db");
  EXPECT_TRUE(failed_with(opened, Errc::unavailable)) << text_of(opened);
  EXPECT_TRUE(contains(text_of(opened), "dovetail init")) << text_of(opened);
}

TEST(Errors, AnInputOutputErrorWhileCommittingIsInDoubt) {
  EXPECT_EQ(commit_error_of(nullptr, SQLITE_IOERR_FSYNC, "committing").code, Errc::in_doubt);
  EXPECT_EQ(error_of(nullptr, SQLITE_IOERR_READ, "reading").code, Errc::unavailable);
}

TEST(Errors, EveryCodeHasItsMeaning) {
  const std::pair<int, Errc> expected[] = {
      {SQLITE_BUSY, Errc::unavailable},     {SQLITE_BUSY_SNAPSHOT, Errc::unavailable},
      {SQLITE_LOCKED, Errc::unavailable},   {SQLITE_FULL, Errc::unavailable},
      {SQLITE_READONLY, Errc::unavailable}, {SQLITE_CANTOPEN, Errc::unavailable},
      {SQLITE_PERM, Errc::unavailable},     {SQLITE_NOMEM, Errc::unavailable},
      {SQLITE_CORRUPT, Errc::corrupt},      {SQLITE_NOTADB, Errc::corrupt},
      {SQLITE_CONSTRAINT, Errc::rejected},  {SQLITE_TOOBIG, Errc::rejected}};
  for (const auto& [code, meaning] : expected)
    EXPECT_EQ(error_of(nullptr, code, "trying").code, meaning) << code;
}

TEST(Files, AreForTheirOwnerAloneAndKeepTheModeThatTheyHave) {
  const auto mode_of = [](const std::string& file) {
    return std::filesystem::status(file).permissions();
  };
  TestFile file;
  Application application(file.path);
  application.run("INSERT INTO dovetail_consumer (name) VALUES ('writes a log')");
  for (const char* end : {"", "-wal", "-shm"})
    EXPECT_EQ(mode_of(file.path + end), std::filesystem::perms(0600)) << end;
  const std::string other = file.directory() + "/other.db";
  const Status ensured = ensure_store(other);
  ASSERT_TRUE(ensured) << text_of(ensured);
  EXPECT_EQ(mode_of(other), std::filesystem::perms(0600));
  const std::string shared = file.directory() + "/shared.db";
  std::ofstream(shared).close();
  std::filesystem::permissions(shared, std::filesystem::perms(0660));
  ASSERT_TRUE(create_store(shared));
  EXPECT_EQ(mode_of(shared), std::filesystem::perms(0660));
}

TEST(Checkpoints, TruncateAnIdleWal) {
  TestFile file;
  Application application(file.path);
  ASSERT_TRUE(prepare_connection(application.connection));
  application.publish_one("1", std::string(200'000, 'x'));
  ASSERT_GT(std::filesystem::file_size(file.path + "-wal"), 100'000u);
  Result<Database> database = open_store(file.path);
  ASSERT_TRUE(database);
  Checkpointer().when_idle(database->get(), database->file());
  EXPECT_EQ(std::filesystem::file_size(file.path + "-wal"), 0u);
}

TEST(Checkpoints, NeverWaitLongForAWriter) {
  TestFile file;
  Application application(file.path);
  ASSERT_TRUE(prepare_connection(application.connection));
  application.publish_one("1", std::string(200'000, 'x'));
  application.run("BEGIN IMMEDIATE");
  Result<Database> database = open_store(file.path);
  ASSERT_TRUE(database);
  const auto before = std::chrono::steady_clock::now();
  Checkpointer().when_idle(database->get(), database->file());
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(4500))
      << "not the 5 s for which others wait";
  EXPECT_GT(std::filesystem::file_size(file.path + "-wal"), 0u);
}

}  // namespace
}  // namespace dovetail::sqlite
