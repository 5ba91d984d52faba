// The whole path of a mapped table that is read from the WAL: slots, gaps and take-over.
#include <signal.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "host/host.h"
#include "memory/sink.h"
#include "postgres/lane/lanes.h"
#include "postgres/mapped/publication.h"
#include "postgres/mapped/rows.h"
#include "postgres/mapped/windows.h"
#include "postgres/operate/admin.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_version.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

// A sink that many lanes use, one after another.
class SharedSink final : public Sink {
 public:
  explicit SharedSink(MemorySink& sink) : sink_(sink) {}
  Status open() override { return sink_.open(); }
  Status submit(Events events) override { return sink_.submit(events); }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    return sink_.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return sink_.keeps_order_on_failure(); }

 private:
  MemorySink& sink_;
};

// A relay process that serves the table, in a thread.
class Process {
 public:
  Process(const std::string& conninfo, const TableMapping& mapping, MemorySink& sink)
      : lanes_(options(conninfo, mapping), system_clock(),
               [&sink](std::uint32_t) { return std::make_unique<SharedSink>(sink); }),
        thread_([this](std::stop_token stop) { ended_ = lanes_.run(stop); }) {}

  LanesOptions options(const std::string& conninfo, const TableMapping& mapping) {
    LanesOptions options;
    options.conninfo = conninfo;
    options.relay = "mapped";
    options.lanes = 1;
    options.mapping = mapping;
    options.reading.mode = ReadMode::wal;
    // If it runs out on a busy machine, the relay starts over, and events come twice.
    options.lease_term = 30s;
    options.heartbeat = 20ms;
    options.relay_options.idle_wait = 20ms;
    options.relay_options.gives_up = true;  // a daemon would wait for a fix instead
    options.relay_options.connect_retry = {Duration(1ms), Duration(100ms)};
    options.notify = [this](std::int32_t, const RelayNotice& notice) {
      const std::lock_guard lock(mutex_);
      said_ += notice.text + "\n";
    };
    return options;
  }
  bool streams() const { return lanes_.metrics().streams == 1; }
  std::string said() const {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  Status stop() {
    thread_.request_stop();
    return wait();
  }
  // For a process that ends by itself.
  Status wait() {
    thread_.join();
    return ended_;
  }

 private:
  mutable std::mutex mutex_;
  std::string said_;
  Status ended_{};
  Lanes lanes_;
  std::jthread thread_;
};

class MappedWal : public ::testing::Test {
 protected:
  MappedWal() {
    EXPECT_TRUE(create_schema(application));
    must(application,
         "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype "
         "varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, "
         "payload jsonb)");
    mapping = *mapping_preset("debezium");
    mapping.delete_when_done = false;
    mapping.from_wal = true;
  }
  void insert(int payload, const std::string& behind = "") {
    must(application,
         "BEGIN; INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', "
         "'7', 'placed', '" +
             std::to_string(payload) + "');" + behind + "; COMMIT");
  }
  std::unique_ptr<Process> start() {
    return std::make_unique<Process>(database.conninfo, mapping, sink);
  }
  bool delivered(std::size_t count) {
    return eventually([&] { return sink.received_count() >= count; });
  }
  std::vector<std::string> payloads() const {
    std::vector<std::string> all;
    for (const StoredEvent& event : sink.received()) all.emplace_back(event.payload);
    return all;
  }
  // That many different ones; some may have come twice.
  bool all_came(std::size_t count) {
    return eventually([&] {
      const std::vector<std::string> all = payloads();
      return std::set<std::string>(all.begin(), all.end()).size() == count;
    });
  }
  std::string slot() { return text(application, "SELECT slot FROM dovetail.relay_lane"); }
  std::int64_t rows() { return number(application, "SELECT count(*) FROM outbox"); }

  using Payloads = std::vector<std::string>;
  TestDatabase database;
  Connection application = database.connect();
  TableMapping mapping;
  // Counts repeats, too.
  MemorySink sink{MemorySinkOptions{.dedup = false}};
};

// Stops the server process that sends WAL to the slot.
class FrozenSender {
 public:
  explicit FrozenSender(std::int64_t pid) : pid_(static_cast<int>(pid)) { ::kill(pid_, SIGSTOP); }
  FrozenSender(const FrozenSender&) = delete;
  FrozenSender& operator=(const FrozenSender&) = delete;
  // The process ends before it hears what it was told meanwhile.
  ~FrozenSender() {
    ::kill(pid_, SIGTERM);
    ::kill(pid_, SIGCONT);
  }

 private:
  int pid_;
};

TEST_F(MappedWal, WhatWasFlushedIsNotReadAgainThoughTheServerNeverHeardOfIt) {
  Reader reader;
  reader.conninfo = database.conninfo;
  reader.relay = "mapped";
  RelayMetrics metrics;
  const auto options = [&](MappedWindows& windows) {
    WalSourceOptions wal;
    wal.reading.mode = ReadMode::wal;
    wal.publication = publication_of("mapped", mapping);
    wal.checks_publication = false;
    wal.make_rows = [&] { return mapped_rows(windows.table(), mapping, windows.last_position()); };
    return wal;
  };
  const auto read = [](Source& source, std::vector<std::string>& all, std::size_t count) {
    return eventually([&] {
      Batch batch;
      const Status done = source.read(batch, {100, 1 << 20, 10ms}, {});
      EXPECT_TRUE(done) << text_of(done);
      for (const Event& event : batch.events()) all.emplace_back(event.payload);
      EXPECT_TRUE(source.settle(batch, std::vector<Settled>(batch.size(), Settled::delivered)));
      return all.size() >= count;
    });
  };
  std::vector<std::string> first;
  {
    MappedWindows windows(reader, mapping, system_clock());
    WalSource source(reader, windows, system_clock(), metrics, options(windows));
    ASSERT_TRUE(source.open());
    insert(1);
    ASSERT_TRUE(read(source, first, 1));
    ASSERT_TRUE(eventually([&] {
      std::vector<std::string> none;
      EXPECT_TRUE(read(source, none, 0));
      EXPECT_TRUE(source.flush());
      return metrics.streams == 1 && number(application,
                                            "SELECT count(*) FROM dovetail.relay_lane WHERE "
                                            "slot_reported > '0/0'") > 0;
    }));
    insert(2);
    const std::string end = text(application, "SELECT pg_current_wal_lsn()::text");
    ASSERT_TRUE(read(source, first, 2));
    // The commit follows the row; without it nobody knows where the transaction ends.
    ASSERT_TRUE(eventually([&] {
      return number(application,
                    "SELECT count(*) FROM pg_stat_replication JOIN pg_replication_slots ON pid = "
                    "active_pid WHERE database = current_database() AND sent_lsn >= '" +
                        end + "'") == 1;
    }));
    const FrozenSender frozen(
        number(application,
               "SELECT max(active_pid) FROM pg_replication_slots WHERE database = "
               "current_database()"));
    ASSERT_TRUE(source.flush());
  }
  insert(3);
  reader.connection.close();
  MappedWindows windows(reader, mapping, system_clock());
  WalSource source(reader, windows, system_clock(), metrics, options(windows));
  ASSERT_TRUE(source.open());
  std::vector<std::string> second;
  ASSERT_TRUE(read(source, second, 1));
  EXPECT_EQ(second, Payloads{"3"});
}

TEST_F(MappedWal, RowsThatAreThereComeFirstAndThenWhatIsInsertedInTheOrderOfCommits) {
  must(application,
       "CREATE TABLE aggregate (id int PRIMARY KEY, version int DEFAULT 0); INSERT INTO aggregate "
       "SELECT generate_series(0, 5); ALTER TABLE outbox ADD COLUMN seq bigint GENERATED ALWAYS AS "
       "IDENTITY");
  mapping.order_by = "seq";
  std::vector<std::thread> writers;
  std::unique_ptr<Process> process;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back([&, w] {
      Connection connection = database.connect();
      for (int i = 0; i < 60; ++i) {
        const std::string key = std::to_string((w * 2 + i) % 6);
        must(connection,
             "BEGIN; UPDATE aggregate SET version = version + 1 WHERE id = " + key +
                 "; SAVEPOINT s; INSERT INTO outbox (aggregatetype, aggregateid, type, payload) "
                 "SELECT 'order', id, 'changed', to_jsonb(version) FROM aggregate WHERE id = " +
                 key + "; RELEASE s; " + (i % 10 == 9 ? "ROLLBACK" : "COMMIT"));
      }
    });
    if (w == 0) process = start();
  }
  for (std::thread& writer : writers) writer.join();
  ASSERT_TRUE(delivered(162)) << process->said();
  EXPECT_TRUE(eventually([&] { return process->streams(); })) << process->said();
  std::map<std::string, int> versions;
  std::set<std::string> ids;
  for (const StoredEvent& event : sink.received()) {
    // While no slot is made, windows follow each other and overlap.
    if (!ids.insert(event.id.to_string()).second) continue;
    EXPECT_EQ(std::stoi(std::string(event.payload)), ++versions[std::string(event.aggregate_id)]);
  }
  EXPECT_EQ(ids.size(), 162u);
  EXPECT_TRUE(process->stop());
  EXPECT_EQ(rows(), 162) << "nothing is written to the table";
}

TEST_F(MappedWal, RowsThatAreDeletedAtOnceAreSentAlsoWhileNobodyRuns) {
  std::unique_ptr<Process> process = start();
  ASSERT_TRUE(eventually([&] { return process->streams(); })) << process->said();
  insert(1, "DELETE FROM outbox");
  ASSERT_TRUE(delivered(1)) << process->said();
  ASSERT_TRUE(process->stop());
  insert(2, "DELETE FROM outbox");
  process = start();
  ASSERT_TRUE(delivered(2)) << process->said();
  insert(3, "DELETE FROM outbox");
  ASSERT_TRUE(delivered(3)) << process->said();
  EXPECT_EQ(payloads(), (Payloads{"1", "2", "3"})) << "once each";
  EXPECT_TRUE(process->stop());
}

TEST_F(MappedWal, StatusAndEventsTellWhatTheLogHasBrought) {
  const auto seen = [&] {
    std::string states;
    const Result<StoreStatus> status_now = status(database.conninfo, {{"mapped", mapping}});
    EXPECT_TRUE(status_now) << text_of(status_now);
    const Result<std::vector<EventRow>> events =
        list_mapped_events(database.conninfo, "mapped", mapping, EventFilter{});
    EXPECT_TRUE(events) << text_of(events);
    if (!status_now || !events) return states;
    std::map<EventState, int> counts;
    for (const EventRow& event : *events) ++counts[event.state];
    return std::to_string(status_now->lanes[0].pending) + " of " + std::to_string(events->size()) +
           ", delivered " + std::to_string(counts[EventState::delivered]);
  };
  std::unique_ptr<Process> process = start();
  insert(1);
  ASSERT_TRUE(eventually([&] { return seen() == "0 of 1, delivered 1"; })) << seen();
  ASSERT_TRUE(process->stop());
  insert(2);
  insert(3);
  EXPECT_EQ(seen(), "2 of 3, delivered 1");
  process = start();
  EXPECT_TRUE(eventually([&] { return seen() == "0 of 3, delivered 3"; })) << seen();
  EXPECT_TRUE(process->stop());
}

TEST_F(MappedWal, WhileTheServerMakesNoSlotTheTableIsReadAndThenTheLogGoesOn) {
  Connection open = database.connect();
  must(open,
       "BEGIN; INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES "
       "('order', '8', 'placed', '100'); SAVEPOINT s; INSERT INTO outbox (aggregatetype, "
       "aggregateid, type, payload) VALUES ('order', '8', 'placed', '101'); RELEASE s");
  insert(1);
  std::unique_ptr<Process> process = start();
  ASSERT_TRUE(delivered(1)) << process->said();
  insert(2);
  ASSERT_TRUE(delivered(2)) << process->said();
  EXPECT_FALSE(process->streams());
  EXPECT_EQ(payloads(), (Payloads{"1", "2"})) << process->said();
  must(open, "COMMIT");
  ASSERT_TRUE(eventually([&] { return process->streams(); })) << process->said();
  // Only the WAL has such a row.
  insert(3, "DELETE FROM outbox WHERE payload = '3'");
  EXPECT_TRUE(eventually([&] {
    const Payloads all = payloads();
    return std::set<std::string>(all.begin(), all.end()) ==
           std::set<std::string>{"1", "2", "3", "100", "101"};
  })) << process->said();
  EXPECT_TRUE(process->stop());
}

TEST_F(MappedWal, SlotThatIsLostIsMadeAgainAndTheTableFillsTheGap) {
  std::unique_ptr<Process> process = start();
  for (int n = 1; n <= 5; ++n) insert(n);
  ASSERT_TRUE(delivered(5)) << process->said();
  ASSERT_TRUE(eventually([&] { return process->streams(); })) << process->said();
  ASSERT_TRUE(process->stop());
  // The server may still be releasing it.
  ASSERT_TRUE(eventually([&] {
    return number(application,
                  "SELECT count(*) FROM pg_replication_slots WHERE active AND "
                  "slot_name = '" +
                      slot() + "'") == 0;
  }));
  must(application, "SELECT pg_drop_replication_slot('" + slot() + "')");
  for (int n = 6; n <= 9; ++n) insert(n);
  process = start();
  ASSERT_TRUE(eventually([&] { return process->streams(); })) << process->said();
  insert(10);
  EXPECT_TRUE(all_came(10)) << process->said();
  EXPECT_TRUE(contains(process->said(), "is gone")) << process->said();
  EXPECT_LT(sink.received_count(), 13u) << "of what was sent, only the last may come again";
  EXPECT_TRUE(process->stop());
}

TEST_F(MappedWal, SlotDroppedWhileItIsReadIsHealedByTheTable) {
  std::unique_ptr<Process> process = start();
  ASSERT_TRUE(eventually([&] { return process->streams(); })) << process->said();
  insert(1);
  ASSERT_TRUE(delivered(1)) << process->said();
  sink.set_available(false);
  const std::string name = slot();
  // The server process is ended and the slot dropped before the relay is back.
  ASSERT_TRUE(eventually([&] {
    (void)application.query(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
        "WHERE slot_name = $1 AND active",
        Params().text(name));
    (void)application.query(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
        "WHERE slot_name = $1 AND NOT active",
        Params().text(name));
    return number(application, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '" +
                                   name + "' AND NOT active") == 0 &&
           !process->streams();
  }));
  for (int n = 2; n <= 4; ++n) insert(n);
  sink.set_available(true);
  EXPECT_TRUE(all_came(4)) << process->said();
  EXPECT_TRUE(process->stop());
}

TEST_F(MappedWal, SlotOfAnotherProgramIsTakenOverWhereItStands) {
  insert(1);
  must(application, "CREATE PUBLICATION dbz_publication FOR ALL TABLES");
  const std::string name = "dbz_" + database.name;
  must(application, "SELECT pg_create_logical_replication_slot('" + name + "', 'pgoutput')");
  insert(2, "DELETE FROM outbox WHERE payload = '2'");
  insert(3);
  mapping.slot = name;
  mapping.publication = "dbz_publication";
  std::unique_ptr<Process> process = start();
  ASSERT_TRUE(delivered(2)) << process->said();
  insert(4);
  ASSERT_TRUE(delivered(3)) << process->said();
  EXPECT_EQ(payloads(), (Payloads{"2", "3", "4"})) << "not what the other has sent";
  EXPECT_EQ(slot(), name);
  ASSERT_TRUE(process->stop());
  process = start();
  insert(5);
  ASSERT_TRUE(delivered(4)) << process->said();
  EXPECT_EQ(payloads(), (Payloads{"2", "3", "4", "5"})) << "resumed";
  EXPECT_TRUE(process->stop());
}

// Since 15. Tables removed from the publication are not in the stream, which continues.
TEST_F(MappedWal, RowOfASchemaThatWasNotPublishedThenIsSentAllTheSame) {
  if (is_before(application, 15)) GTEST_SKIP() << "no publication of a schema before 15";
  must(application, "CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA public");
  mapping.publication = "of_schema";
  std::unique_ptr<Process> process = start();
  ASSERT_TRUE(eventually([&] { return process->streams(); })) << process->said();
  insert(1);
  ASSERT_TRUE(delivered(1)) << process->said();
  must(application, "ALTER PUBLICATION of_schema DROP TABLES IN SCHEMA public");
  insert(2);
  // Until safe points have passed the row, or the relay notices that the stream lacks it.
  ASSERT_TRUE(eventually([&] {
    return contains(process->said(), "was changed") ||
           text(application,
                "SELECT pg_visible_in_snapshot(o.xmin::text::xid8, r.window_start)::text "
                "FROM outbox AS o, dovetail.relay_lane AS r WHERE o.payload = '2'") == "true";
  })) << process->said();
  must(application, "ALTER PUBLICATION of_schema ADD TABLES IN SCHEMA public");
  insert(3);
  EXPECT_TRUE(all_came(3)) << process->said();
  EXPECT_TRUE(process->stop());
}

TEST_F(MappedWal, RowOfATableThatWasElsewhereThenIsSentAllTheSame) {
  if (is_before(application, 15)) GTEST_SKIP() << "no publication of a schema before 15";
  must(application, "CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA public");
  mapping.publication = "of_schema";
  std::unique_ptr<Process> process = start();
  ASSERT_TRUE(eventually([&] { return process->streams(); })) << process->said();
  insert(1);
  ASSERT_TRUE(delivered(1)) << process->said();
  ASSERT_TRUE(process->stop());
  must(application,
       "CREATE SCHEMA elsewhere; SET search_path = public, elsewhere; "
       "ALTER TABLE outbox SET SCHEMA elsewhere");
  insert(2);
  must(application, "ALTER TABLE outbox SET SCHEMA public");
  process = start();
  insert(3);
  EXPECT_TRUE(all_came(3)) << process->said();
  EXPECT_TRUE(process->stop());
}

TEST_F(MappedWal, SlotThatIsNotThereToBeTakenOverHaltsTheRelay) {
  insert(1);
  must(application, "CREATE PUBLICATION dbz_publication FOR TABLE outbox");
  mapping.slot = "no_such_slot";
  mapping.publication = "dbz_publication";
  const Status ended = start()->wait();
  EXPECT_TRUE(failed_with(ended, Errc::rejected)) << text_of(ended);
  EXPECT_TRUE(contains(text_of(ended), "no_such_slot")) << text_of(ended);
  EXPECT_EQ(sink.received_count(), 0u) << "what another program may have sent";
}

TEST_F(MappedWal, SeveralLanesAndOtherModesAreRefused) {
  Process process(database.conninfo, mapping, sink);
  LanesOptions options = process.options(database.conninfo, mapping);
  EXPECT_TRUE(process.stop());
  options.notify = [](std::int32_t, const RelayNotice&) {};
  const auto make = [&](std::uint32_t) { return std::make_unique<SharedSink>(sink); };
  options.reading.mode = ReadMode::automatic;
  EXPECT_TRUE(failed_with(Lanes(options, system_clock(), make).run({}), Errc::rejected));
  options.reading.mode = ReadMode::wal;
  options.relay = "wide";
  options.lanes = 2;
  EXPECT_TRUE(failed_with(Lanes(options, system_clock(), make).run({}), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::postgres
