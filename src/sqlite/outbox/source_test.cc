#include "sqlite/outbox/source.h"

#include <sys/wait.h>
#include <unistd.h>

#include "sqlite/lane/lease.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;

class OutboxSource : public ::testing::Test {
 protected:
  std::vector<std::string> read(SqliteSource& source, Limits limits = {}) {
    batch.clear();
    const Status status = source.read(batch, limits, stop.get_token());
    EXPECT_TRUE(status) << text_of(status);
    std::vector<std::string> payloads;
    for (const Event& event : batch.events()) payloads.emplace_back(event.payload);
    return payloads;
  }
  Status settle(SqliteSource& source, Settled fate = Settled::delivered) {
    return source.settle(batch, std::vector<Settled>(batch.size(), fate));
  }
  void open(SqliteSource& source) {
    const Status opened = source.open();
    ASSERT_TRUE(opened) << text_of(opened);
  }
  using Payloads = std::vector<std::string>;

  TestFile file;
  Application application{file.path};
  Reader reader{file.path, "relay"};
  std::stop_source stop;
  Batch batch;
};

TEST_F(OutboxSource, ReadsInCommitOrderWithEveryField) {
  application.run("BEGIN");
  const Header headers[] = {{"a", "b"}};
  NewEvent event;
  event.aggregate_type = "order";
  event.aggregate_id = "17";
  event.type = "placed";
  event.payload = std::string_view("\0\x01", 2);
  event.content_type = "application/octet-stream";
  event.headers = headers;
  event.topic = "orders";
  event.aggregate_version = 5;
  const Result<EventId> id = publish(application.connection, event);
  ASSERT_TRUE(id) << text_of(id);
  application.run("COMMIT");
  application.publish_one("18", "two");

  SqliteSource source(reader, system_clock());
  open(source);
  EXPECT_EQ(read(source), (Payloads{std::string("\0\x01", 2), "two"}));
  const Event& first = batch.events()[0];
  EXPECT_EQ(first.id, *id);
  EXPECT_EQ(first.position, 1);
  EXPECT_EQ(first.topic, "orders");
  EXPECT_EQ(first.aggregate_type, "order");
  EXPECT_EQ(first.aggregate_id, "17");
  EXPECT_EQ(first.type, "placed");
  EXPECT_EQ(first.content_type, "application/octet-stream");
  EXPECT_EQ(decode_headers(first.headers)->at(0).value, "b");
  EXPECT_EQ(first.aggregate_version, 5);
  EXPECT_EQ(first.key_hash, key_hash("order", "17"));
  EXPECT_LT(std::abs(to_stored(first.created_at) - to_stored(system_clock().wall())), 60'000'000);
}

TEST_F(OutboxSource, WhatWasNotSettledIsReadAgain) {
  for (const char* payload : {"1", "2", "3"}) application.publish_one("k", payload);
  SqliteSource source(reader, system_clock());
  open(source);
  EXPECT_EQ(read(source, Limits{1}), Payloads{"1"});
  ASSERT_TRUE(settle(source));
  ASSERT_TRUE(source.flush());
  EXPECT_EQ(read(source, Limits{1}), Payloads{"2"});
  open(source);
  EXPECT_EQ(read(source), (Payloads{"2", "3"}));
}

TEST_F(OutboxSource, LimitsHoldAndALargeEventComesAlone) {
  for (const char* payload : {"1", "2"}) application.publish_one("k", payload);
  application.publish_one("k", std::string(5000, 'x'));
  application.publish_one("k", "4");
  SqliteSource source(reader, system_clock());
  open(source);
  EXPECT_EQ(read(source, Limits{10, 1000}).size(), 2u);
  EXPECT_EQ(read(source, Limits{10, 1000}).size(), 1u);
  EXPECT_EQ(batch.events()[0].payload.size(), 5000u);
  EXPECT_EQ(read(source, Limits{10, 1000}), Payloads{"4"});
}

TEST_F(OutboxSource, AnEmptyOutboxReturnsAfterTheWait) {
  SqliteSource source(reader, system_clock());
  open(source);
  EXPECT_TRUE(read(source, Limits{10, 1000, 20ms}).empty());
}

TEST_F(OutboxSource, StopEndsTheWait) {
  SqliteSource source(reader, system_clock());
  open(source);
  std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(read(source, Limits{10, 1000, 60s}).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - before, 30s);
}

TEST_F(OutboxSource, AMissingFileIsUnavailable) {
  Reader missing{file.directory() + "/missing.db", "relay"};
  SqliteSource source(missing, system_clock());
  const Status opened = source.open();
  EXPECT_TRUE(failed_with(opened, Errc::unavailable)) << text_of(opened);
}

TEST_F(OutboxSource, ANameReadsOneStreamOnly) {
  SqliteSource source(reader, system_clock());
  open(source);
  Reader other{file.path, "relay", SourceKind::mailbox};
  SqliteSource mailbox(other, system_clock());
  const Status opened = mailbox.open();
  EXPECT_TRUE(failed_with(opened, Errc::rejected)) << text_of(opened);
}

TEST_F(OutboxSource, OtherTopicsArePassedOver) {
  application.publish_one("k", "1", "orders");
  application.publish_one("k", "2", "other");
  application.publish_one("k", "3", "orders");
  application.publish_one("k", "4", "other");
  reader.topics = {"orders"};
  SqliteSource source(reader, system_clock());
  open(source);
  EXPECT_EQ(read(source), (Payloads{"1", "3"}));
  ASSERT_TRUE(settle(source));
  EXPECT_TRUE(read(source).empty());
  ASSERT_TRUE(source.flush());
  EXPECT_EQ(application.number("SELECT passed_seq FROM dovetail_relay"), 4)
      << "so that a prune may delete them";
}

TEST_F(OutboxSource, PassingOtherTopicsNeverSettlesWhatIsOpen) {
  application.publish_one("k", "1", "orders");
  application.publish_one("k", "2", "other");
  reader.topics = {"orders"};
  SqliteSource source(reader, system_clock());
  open(source);
  EXPECT_EQ(read(source), Payloads{"1"});
  Batch second;
  ASSERT_TRUE(source.read(second, {}, stop.get_token()));
  EXPECT_TRUE(second.empty());
  ASSERT_TRUE(source.flush());
  EXPECT_EQ(application.number("SELECT passed_seq FROM dovetail_relay"), 0);
}

TEST_F(OutboxSource, TotalsCountWhatWasSettled) {
  for (const char* payload : {"1", "2", "3"}) application.publish_one("k", payload);
  SqliteSource source(reader, system_clock());
  open(source);
  EXPECT_EQ(read(source, Limits{2}).size(), 2u);
  ASSERT_TRUE(settle(source));
  EXPECT_EQ(read(source, Limits{2}).size(), 1u);
  ASSERT_TRUE(settle(source, Settled::parked));
  ASSERT_TRUE(source.flush());
  EXPECT_EQ(application.text("SELECT passed_seq || ',' || delivered_total || ',' || parked_total "
                             "FROM dovetail_relay"),
            "3,2,1");
}

TEST_F(OutboxSource, AStaleOwnerCannotSettle) {
  application.publish_one("k");
  SqliteLease old_lease(reader, system_clock(), "old", "boot one");
  ASSERT_TRUE(old_lease.acquire());
  SqliteSource source(reader, system_clock());
  open(source);
  EXPECT_EQ(read(source).size(), 1u);
  Reader next{file.path, "relay"};
  SqliteLease new_lease(next, system_clock(), "new", "boot two");
  ASSERT_TRUE(new_lease.acquire());
  ASSERT_TRUE(settle(source));
  const Status flushed = source.flush();
  EXPECT_TRUE(failed_with(flushed, Errc::stopped)) << text_of(flushed);
  EXPECT_EQ(application.number("SELECT passed_seq FROM dovetail_relay"), 0);
}

// Measures from before the other process asks for COMMIT until the event is read here.
TEST_F(OutboxSource, FollowsCommitsOfAnotherProcessWithinMilliseconds) {
  constexpr int kEvents = 30;
  const pid_t writer = fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    sqlite3* connection = nullptr;
    bool good = sqlite3_open(file.path.c_str(), &connection) == SQLITE_OK &&
                prepare_connection(connection).has_value();
    for (int i = 0; i < kEvents && good; ++i) {
      usleep(15'000);
      good = sqlite3_exec(connection, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK;
      NewEvent event;
      event.aggregate_type = "order";
      event.type = "placed";
      event.payload = "{}";
      good = good && publish(connection, event).has_value() &&
             sqlite3_exec(connection, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK;
    }
    _exit(good ? 0 : 1);
  }
  SqliteSource source(reader, system_clock());
  open(source);
  std::vector<std::int64_t> delays;
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (delays.size() < kEvents && std::chrono::steady_clock::now() < end) {
    batch.clear();
    ASSERT_TRUE(source.read(batch, Limits{100, 1 << 20, 1s}, stop.get_token()));
    for (const Event& event : batch.events())
      delays.push_back(to_stored(system_clock().wall()) - to_stored(event.created_at));
    ASSERT_TRUE(settle(source));
  }
  int status = 0;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(delays.size(), static_cast<std::size_t>(kEvents));
  std::sort(delays.begin(), delays.end());
  RecordProperty("median_delay_us", std::to_string(delays[kEvents / 2]));
  // Well below the slow probe, with room for a busy machine and a slow disk.
  EXPECT_LT(delays[kEvents / 2], 60'000);
}

TEST_F(OutboxSource, TheWalDoesNotGrowWithoutBound) {
  ASSERT_TRUE(prepare_connection(application.connection));
  SqliteSource source(reader, system_clock());
  open(source);
  const std::string payload(200'000, 'x');
  std::uintmax_t wal_max = 0;
  for (int i = 0; i < 300; ++i) {  // 60 MB in all
    application.publish_one("k", payload);
    ASSERT_EQ(read(source).size(), 1u);
    ASSERT_TRUE(settle(source));
    wal_max = std::max(wal_max, std::filesystem::file_size(file.path + "-wal"));
  }
  EXPECT_LT(wal_max, 20u << 20);
  const bool empties = eventually([&] {
    EXPECT_TRUE(read(source, Limits{1, 1000, 50ms}).empty());
    return std::filesystem::file_size(file.path + "-wal") <= (64u << 10);
  });
  EXPECT_TRUE(empties) << "an idle source empties the WAL";
}

}  // namespace
}  // namespace dovetail::sqlite
