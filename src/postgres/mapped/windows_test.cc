#include "postgres/mapped/windows.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

TableMapping plain_mapping() {
  TableMapping mapping;
  mapping.table = "outbox";
  mapping.aggregate_id = "who";
  mapping.from_wal = true;
  return mapping;
}

// A lane whose gaps the test closes, like a source of the WAL does.
class MappedWindowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(create_schema(writer));
    must(writer,
         "CREATE TABLE outbox (id int PRIMARY KEY, who text, payload text) WITH "
         "(autovacuum_enabled = off)");
  }
  void insert(Connection& connection, int id) {
    must(connection, "INSERT INTO outbox VALUES (" + std::to_string(id) + ", 'k', '" +
                         std::to_string(id) + "')");
  }
  // Begins to read up to now; later commits belong to the WAL.
  std::string end_now() {
    must(exporter, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    const std::string name = text(exporter, "SELECT pg_export_snapshot()");
    const std::string shows = text(exporter, "SELECT pg_current_snapshot()::text");
    const Status ended = windows.end_at_exported(name, shows);
    EXPECT_TRUE(ended) << text_of(ended);
    must(exporter, "COMMIT");
    return shows;
  }
  // What it returns until the end, settled.
  std::vector<std::string> read_all(const Limits& limits = {1000, 1 << 20, 100ms}) {
    std::vector<std::string> payloads;
    while (!windows.has_ended()) {
      Batch batch;
      const Status read = windows.read(batch, limits, {});
      EXPECT_TRUE(read) << text_of(read);
      if (!read) break;
      EXPECT_LE(batch.size(), limits.events_max);
      for (const Event& event : batch.events()) payloads.emplace_back(event.payload);
      settle(batch);
    }
    windows.go_on();
    return payloads;
  }
  // What comes until this event, while no end is set.
  std::vector<std::string> read_until(const std::string& last) {
    std::vector<std::string> payloads;
    const bool came = eventually([&] {
      Batch batch;
      const Status read = windows.read(batch, {1000, 1 << 20, 10ms}, {});
      EXPECT_TRUE(read) << text_of(read);
      for (const Event& event : batch.events()) payloads.emplace_back(event.payload);
      settle(batch);
      return windows.is_between_windows() &&
             std::find(payloads.begin(), payloads.end(), last) != payloads.end();
    });
    EXPECT_TRUE(came) << last;
    return payloads;
  }
  void settle(const Batch& batch) {
    EXPECT_TRUE(windows.settle(batch, std::vector<Settled>(batch.size(), Settled::delivered)));
  }
  std::string progress() {
    return text(writer, "SELECT window_start::text FROM dovetail.relay_lane");
  }

  using Payloads = std::vector<std::string>;
  TestDatabase database;
  Connection writer = database.connect();
  Connection exporter = database.connect();
  Reader reader{database.conninfo, "shop-relay"};
  MappedWindows windows{reader, plain_mapping(), system_clock()};
};

TEST_F(MappedWindowsTest, FirstStartReadsEveryRowThatIsThere) {
  for (const int id : {3, 1, 2}) insert(writer, id);
  ASSERT_TRUE(windows.open());
  const std::string end = end_now();
  insert(writer, 4);
  EXPECT_FALSE(windows.is_between_windows());
  EXPECT_EQ(read_all(), (Payloads{"1", "2", "3"}))
      << "in the order of the id, without what is newer";
  EXPECT_EQ(windows.progress().read_to().prev, end);
  EXPECT_TRUE(windows.is_between_windows());
  ASSERT_TRUE(windows.flush());
  EXPECT_EQ(progress(), end);
}

TEST_F(MappedWindowsTest, WithoutAnEndWhatIsNewComesOnceAlthoughAnOlderTransactionIsOpen) {
  Connection late = database.connect();
  must(late, "BEGIN");
  insert(late, 101);
  must(late, "SAVEPOINT s");
  insert(late, 102);
  must(late, "RELEASE s");
  insert(writer, 1);
  ASSERT_TRUE(windows.open());
  EXPECT_EQ(read_until("1"), (Payloads{"1"}));
  EXPECT_FALSE(windows.has_ended());
  insert(writer, 2);
  EXPECT_EQ(read_until("2"), (Payloads{"2"})) << "without what was read before";
  must(late, "COMMIT");
  insert(writer, 3);
  const Payloads rest = read_until("3");
  const std::set<std::string> seen(rest.begin(), rest.end());
  for (const char* wanted : {"101", "102"}) EXPECT_TRUE(seen.contains(wanted)) << wanted;
  ASSERT_TRUE(windows.flush());
  const std::string reached = windows.progress().read_to().prev;
  EXPECT_EQ(progress(), reached);
  insert(writer, 4);
  end_now();
  EXPECT_EQ(read_all(), (Payloads{"4"})) << "an end is set behind them";
}

TEST_F(MappedWindowsTest, AfterALostSlotRowsOfTransactionsThatWereOpenAreNotLeftOut) {
  for (int id = 1; id <= 50; ++id) insert(writer, id);
  // Open while progress is taken: one transaction, and one with a subtransaction number of its own.
  Connection late = database.connect();
  must(late, "BEGIN");
  insert(late, 101);
  must(late, "SAVEPOINT s");
  insert(late, 102);
  must(late, "RELEASE s");
  insert(writer, 51);
  ASSERT_TRUE(windows.open());
  end_now();
  EXPECT_EQ(read_all().size(), 51u);
  ASSERT_TRUE(windows.flush());

  must(late, "COMMIT");
  insert(writer, 201);
  ASSERT_TRUE(windows.open()) << "as after a crash";
  end_now();
  const Payloads again = read_all();
  const std::set<std::string> seen(again.begin(), again.end());
  for (const char* wanted : {"101", "102", "201"}) EXPECT_TRUE(seen.contains(wanted)) << wanted;
  EXPECT_LE(seen.size(), 4u) << "of what was sent before, only what is as new as the open one";
}

TEST_F(MappedWindowsTest, ProgressCountsOnlyWhatIsSettled) {
  for (int id = 1; id <= 3; ++id) insert(writer, id);
  ASSERT_TRUE(windows.open());
  const std::string before = windows.progress().read_to().prev;
  const std::string end = end_now();
  Batch first;
  ASSERT_TRUE(windows.read(first, {2, 1000, 30s}, {}));
  Batch second;
  ASSERT_TRUE(windows.read(second, {2, 1000, 30s}, {}));
  ASSERT_TRUE(windows.has_ended());
  settle(first);
  ASSERT_TRUE(windows.flush());
  EXPECT_EQ(progress(), before);
  settle(second);
  ASSERT_TRUE(windows.flush());
  EXPECT_EQ(progress(), end);
  EXPECT_EQ(number(writer, "SELECT delivered_total FROM dovetail.relay_lane"), 3);
}

TEST_F(MappedWindowsTest, SnapshotOfTheLogCountsWhenAllBeforeItIsSettled) {
  ASSERT_TRUE(windows.open());
  end_now();
  read_all();
  Batch streamed;
  for (int i = 0; i < 2; ++i) {
    Event event;
    event.aggregate_type = "t";
    streamed.append(event);
  }
  windows.progress().add(2);
  windows.progress().cover("900:900:", 0);
  ASSERT_TRUE(windows.flush());
  EXPECT_NE(progress(), "900:900:");
  settle(streamed);
  ASSERT_TRUE(windows.flush());
  EXPECT_EQ(progress(), "900:900:");
  windows.progress().cover("901:901:", 0);
  ASSERT_TRUE(windows.flush());
  EXPECT_EQ(progress(), "901:901:") << "nothing is in flight";
}

TEST_F(MappedWindowsTest, LargeTableComesInPagesWithinTheLimits) {
  must(writer,
       "INSERT INTO outbox SELECT n, 'k', repeat(md5(n::text), 30) FROM generate_series(1, 2500) "
       "AS n");
  ASSERT_TRUE(windows.open());
  end_now();
  const Payloads all = read_all({400, 100'000, 30s});
  EXPECT_EQ(all.size(), 2500u);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 2500u);
}

TEST_F(MappedWindowsTest, RowsThatTheServerKeepsCompressedAreBoundedByTheirRealSize) {
  must(writer,
       "CREATE TABLE dense (id int PRIMARY KEY, payload jsonb); INSERT INTO dense SELECT n, "
       "to_jsonb(repeat('x', 50000)) FROM generate_series(1, 20) AS n");
  TableMapping mapping = plain_mapping();
  mapping.table = "dense";
  mapping.aggregate_id.clear();
  Reader other{database.conninfo, "dense-relay"};
  MappedWindows dense(other, mapping, system_clock());
  ASSERT_TRUE(dense.open());
  ASSERT_TRUE(dense.end_at(text(writer, "SELECT pg_current_snapshot()::text")));
  std::size_t count = 0;
  while (!dense.has_ended()) {
    Batch batch;
    ASSERT_TRUE(dense.read(batch, {1000, 120'000, 100ms}, {}));
    EXPECT_LE(batch.size(), 2u);
    count += batch.size();
  }
  EXPECT_EQ(count, 20u);
}

TEST_F(MappedWindowsTest, RowsThatTheRoleMayNotSeeAreAnErrorAndNotAGap) {
  const std::string role = "w_" + database.name;
  insert(writer, 1);
  must(writer,
       "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; CREATE PUBLICATION p FOR TABLE "
       "outbox; CREATE ROLE " +
           role + " LOGIN; GRANT SELECT ON outbox TO " + role +
           "; GRANT USAGE ON SCHEMA dovetail TO " + role +
           "; GRANT ALL ON ALL TABLES IN SCHEMA dovetail TO " + role +
           "; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dovetail TO " + role);
  TableMapping mapping = plain_mapping();
  mapping.publication = "p";
  {
    Reader other{database.conninfo + " user=" + role, "blind-relay"};
    MappedWindows blind(other, mapping, system_clock());
    const Status opened = blind.open();
    ASSERT_TRUE(opened) << text_of(opened);
    Status read = blind.end_at(text(writer, "SELECT pg_current_snapshot()::text"));
    Batch batch;
    while (read && !blind.has_ended()) read = blind.read(batch, {1000, 1 << 20, 100ms}, {});
    EXPECT_TRUE(failed_with(read, Errc::rejected)) << text_of(read);
    EXPECT_TRUE(batch.empty());
  }
  must(writer, "DROP OWNED BY " + role + "; DROP ROLE " + role);
}

TEST_F(MappedWindowsTest, AnotherRelayThatTookTheLaneOverStopsIt) {
  ASSERT_TRUE(windows.open());
  must(writer, "UPDATE dovetail.relay_lane SET epoch = 7");
  reader.epoch = 6;
  windows.progress().cover("900:900:", 0);
  EXPECT_TRUE(failed_with(windows.flush(), Errc::stopped));
}

TEST_F(MappedWindowsTest, RowsArriveInTheOrderOfTheirTransactionsWhereTheTableHasNone) {
  must(writer, "CREATE TABLE bare (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), payload text)");
  Payloads wanted;
  for (int n = 10; n < 60; ++n) {
    must(writer, "INSERT INTO bare (payload) VALUES ('" + std::to_string(n) + "')");
    wanted.push_back(std::to_string(n));
  }
  TableMapping mapping;
  mapping.table = "bare";
  mapping.from_wal = true;
  Reader other{database.conninfo, "bare-relay"};
  MappedWindows bare(other, mapping, system_clock());
  ASSERT_TRUE(bare.open());
  ASSERT_TRUE(bare.end_at(text(writer, "SELECT pg_current_snapshot()::text")));
  Payloads seen;
  while (!bare.has_ended()) {
    Batch batch;
    ASSERT_TRUE(bare.read(batch, {1000, 1 << 20, 100ms}, {}));
    for (const Event& event : batch.events()) seen.emplace_back(event.payload);
  }
  EXPECT_EQ(seen, wanted);
}

}  // namespace
}  // namespace dovetail::postgres
