// The whole path of a mapped table: relay, lanes, parking and marks.
#include "core/relay/relay.h"

#include <map>
#include <memory>
#include <thread>

#include "host/host.h"
#include "memory/sink.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/mapped/source.h"
#include "postgres/operate/admin.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

// One lane on its own thread, as in a relay process.
class RunningLane {
 public:
  RunningLane(const std::string& conninfo, const TableMapping& mapping, Sink& sink,
              std::uint32_t lane, std::uint32_t lanes, std::uint32_t attempts_max = 2)
      : reader_{conninfo, "mapped", lane, lanes},
        source_(reader_, mapping, system_clock()),
        lease_(reader_, system_clock(), "lane" + std::to_string(lane), 2s),
        parking_(reader_, source_) {
    RelayOptions options;
    options.key_retry = {Duration(1ms), Duration(5ms)};
    options.connect_retry = {Duration(1ms), Duration(20ms)};
    options.attempts_max = attempts_max;
    options.replay_poll = 10ms;
    options.idle_wait = 20ms;
    options.batch_events_max = 20;
    relay_ = std::make_unique<Relay>(
        RelayPorts{source_, sink, parking_, lease_, system_clock(), metrics_}, options);
    thread_ = std::jthread([this](std::stop_token stop) {
      const Status done = relay_->run(stop);
      EXPECT_TRUE(done) << text_of(done);
    });
  }

  RelayMetrics metrics_;

 private:
  Reader reader_;
  MappedSource source_;
  PostgresLease lease_;
  MappedParking parking_;
  std::unique_ptr<Relay> relay_;
  std::jthread thread_;
};

class MappedRoad : public ::testing::Test {
 protected:
  MappedRoad() {
    EXPECT_TRUE(create_schema(application));
    must(application,
         "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), seq bigint GENERATED "
         "ALWAYS AS IDENTITY, aggregate_type text DEFAULT 'order', aggregate_id text, event_type "
         "text DEFAULT 'x', payload jsonb, created_at timestamptz DEFAULT now(), processed_at "
         "timestamptz, status text DEFAULT 'pending'); CREATE INDEX ON outbox (seq, id) WHERE "
         "status = 'pending'");
    mapping = *mapping_preset("processed_at");
    mapping.order_by = "seq";
  }
  std::int64_t with_status(const std::string& status) {
    return number(application, "SELECT count(*) FROM outbox WHERE status = '" + status + "'");
  }

  TestDatabase database;
  Connection application = database.connect();
  TableMapping mapping;
};

TEST_F(MappedRoad, LanesDeliverEverythingInOrderWhileWritersCommitLate) {
  // One sink for each lane, as a process has it.
  std::vector<std::unique_ptr<MemorySink>> sinks;
  std::vector<std::unique_ptr<RunningLane>> lanes;
  for (std::uint32_t i = 0; i < 3; ++i) {
    sinks.push_back(std::make_unique<MemorySink>());
    lanes.push_back(std::make_unique<RunningLane>(database.conninfo, mapping, *sinks.back(), i, 3));
  }
  // Each writer locks the aggregate, takes its number, and commits later.
  must(application,
       "CREATE TABLE aggregate (id int PRIMARY KEY, version int DEFAULT 0); INSERT "
       "INTO aggregate SELECT generate_series(0, 7)");
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      Connection connection = database.connect();
      for (int i = 0; i < 50; ++i) {
        const std::string key = std::to_string((w * 3 + i) % 8);
        must(connection,
             "BEGIN; UPDATE aggregate SET version = version + 1 WHERE id = " + key +
                 "; INSERT INTO outbox (aggregate_id, payload) SELECT id, to_jsonb(version) FROM "
                 "aggregate WHERE id = " +
                 key + "; SELECT pg_sleep(" + std::to_string((w + i) % 4) + " * 0.001); " +
                 (i % 10 == 9 ? "ROLLBACK" : "COMMIT"));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(eventually([&] { return with_status("pending") == 0; }));
  EXPECT_EQ(with_status("processed"), 180);
  std::size_t received = 0;
  std::map<std::string, int> last;
  for (const auto& sink : sinks) {
    for (const StoredEvent& stored : sink->received()) {
      const Event event = stored.view();
      const int version = std::stoi(std::string(event.payload));
      int& seen = last[std::string(event.aggregate_id)];
      EXPECT_EQ(version, seen + 1) << event.aggregate_id;
      seen = version;
      ++received;
    }
  }
  EXPECT_EQ(received, 180u);
}

// Every page begins at the first pending row, because rows before may have committed since.
TEST_F(MappedRoad, LateRowIsNotOvertakenOnItsKeyWhileABacklogIsPaged) {
  Connection late = database.connect();
  must(late, "BEGIN; INSERT INTO outbox (aggregate_id, payload) VALUES ('a', '1')");
  must(application,
       "INSERT INTO outbox (aggregate_id, payload) SELECT 'b', '0' FROM generate_series(1, 300)");
  Reader reader{database.conninfo, "mapped"};
  MappedSource source(reader, mapping, system_clock());
  const Status opened = source.open();
  ASSERT_TRUE(opened) << text_of(opened);
  Batch page;
  ASSERT_TRUE(source.read(page, Limits{150}, {}));
  ASSERT_EQ(page.size(), 150u);
  must(late, "COMMIT");
  must(application, "INSERT INTO outbox (aggregate_id, payload) VALUES ('a', '2')");
  Batch rest;
  ASSERT_TRUE(source.read(rest, Limits{1000}, {}));
  std::string of_key;
  for (const Event& event : rest.events())
    if (event.aggregate_id == "a") of_key += event.payload;
  EXPECT_EQ(of_key, "12");
}

TEST_F(MappedRoad, FailedEventIsParkedReplayedAndMarked) {
  must(application,
       "INSERT INTO outbox (aggregate_id, payload) VALUES ('a', '1'), ('a', '2'), "
       "('b', '3')");
  MemorySink sink;
  std::atomic<bool> healed = false;
  sink.decide_by([&](const Event& event) {
    if (event.payload == "1" && !healed) return Outcome{Fate::rejected, 0, "not like this"};
    return Outcome{Fate::confirmed};
  });
  RunningLane lane(database.conninfo, mapping, sink, 0, 1);
  EXPECT_TRUE(eventually([&] { return with_status("processed") == 1; }));
  EXPECT_TRUE(eventually([&] { return with_status("failed") == 1; }));
  // The one behind it has not failed.
  EXPECT_EQ(with_status("pending"), 1);
  ParkedFilter heads;
  heads.heads_only = true;
  const Result<std::vector<ParkedRow>> parked = list_parked(database.conninfo, heads);
  ASSERT_TRUE(parked) << text_of(parked);
  ASSERT_EQ(parked->size(), 1u);
  EXPECT_EQ((*parked)[0].reason, "not like this");

  healed = true;
  ASSERT_TRUE(replay_event(database.conninfo, "mapped", (*parked)[0].id, "healed"));
  EXPECT_TRUE(eventually([&] { return with_status("processed") == 3; }));
  const std::vector<StoredEvent> received = sink.received();
  ASSERT_EQ(received.size(), 3u);
  EXPECT_EQ(received[1].view().payload, "1");
  EXPECT_EQ(received[2].view().payload, "2");
}

TEST_F(MappedRoad, RowOfAnEventThatWaitsForItsNextTryIsPendingUntilItIsDelivered) {
  must(application, "INSERT INTO outbox (aggregate_id, payload) VALUES ('a', '1')");
  MemorySink sink;
  std::atomic<bool> healed = false;
  sink.decide_by([&](const Event& event) {
    if (event.payload == "1" && !healed) return Outcome{Fate::failed, 0, "not yet"};
    return Outcome{Fate::confirmed};
  });
  RunningLane lane(database.conninfo, mapping, sink, 0, 1, 1'000'000);
  // While others pass, it waits in parking.
  const auto aside = [&] {
    must(application, "INSERT INTO outbox (aggregate_id, payload) VALUES ('b', '2')");
    return number(application, "SELECT count(*) FROM dovetail.parked WHERE attempts > 2") == 1;
  };
  EXPECT_TRUE(eventually(aside));
  EXPECT_EQ(with_status("failed"), 0);
  EXPECT_GE(with_status("pending"), 1);
  healed = true;
  EXPECT_TRUE(eventually([&] { return with_status("pending") == 0; }));
  EXPECT_EQ(text(application, "SELECT status FROM outbox WHERE aggregate_id = 'a'"), "processed");
}

TEST_F(MappedRoad, RowThatIsResetByHandAndFailsAgainIsParkedAgainAsItIsNow) {
  must(application, "INSERT INTO outbox (aggregate_id, payload) VALUES ('a', '1')");
  MemorySink sink({.dedup = false});
  std::atomic<bool> healed = false;
  sink.decide_by([&](const Event&) {
    return healed ? Outcome{Fate::confirmed} : Outcome{Fate::rejected, 0, "not like this"};
  });
  RunningLane lane(database.conninfo, mapping, sink, 0, 1);
  const auto replay = [&] {
    // It may have been put behind another one, and then goes out once more by
    // itself.
    EXPECT_TRUE(eventually([&] {
      return number(application, "SELECT count(*) FROM dovetail.parked WHERE state = 'parked'") ==
             1;
    }));
    healed = true;
    ParkedFilter heads;
    heads.heads_only = true;
    const EventId id = list_parked(database.conninfo, heads).value().at(0).id;
    const auto asked = replay_event(database.conninfo, "mapped", id, "healed");
    EXPECT_TRUE(asked) << text_of(asked);
    EXPECT_TRUE(eventually([&] { return with_status("processed") == 1; }));
    healed = false;
  };
  EXPECT_TRUE(eventually([&] { return with_status("failed") == 1; }));
  replay();
  for (const std::string payload : {"2", "3"}) {
    // Events finished in the meantime must not hide it, however they finished.
    if (payload == "3")
      must(application, "UPDATE dovetail.parked SET state = 'discarded', row_state = 'discarded'");
    must(application, "UPDATE outbox SET status = 'pending', payload = '" + payload + "'");
    EXPECT_TRUE(eventually([&] { return with_status("failed") == 1; }));
    const Result<std::vector<ParkedRow>> parked = list_parked(database.conninfo, {});
    ASSERT_TRUE(parked) << text_of(parked);
    ASSERT_EQ(parked->size(), 1u);
    EXPECT_TRUE((*parked)[0].head);
    replay();
    EXPECT_EQ(sink.received().back().view().payload, payload);
  }
}

TEST_F(MappedRoad, DiscardedEventIsMarkedAndTheRestOfItsKeyFlows) {
  must(application, "INSERT INTO outbox (aggregate_id, payload) VALUES ('a', '1'), ('a', '2')");
  MemorySink sink;
  sink.decide_by([](const Event& event) {
    if (event.payload == "1") return Outcome{Fate::rejected, 0, "never"};
    return Outcome{Fate::confirmed};
  });
  RunningLane lane(database.conninfo, mapping, sink, 0, 1);
  EXPECT_TRUE(eventually([&] { return with_status("failed") == 1; }));
  ParkedFilter heads;
  heads.relay = "mapped";
  heads.key = "a";
  heads.heads_only = true;
  const EventId id = list_parked(database.conninfo, heads).value().at(0).id;
  const Status discarded = discard(database.conninfo, "mapped", id, "of no use");
  ASSERT_TRUE(discarded) << text_of(discarded);
  EXPECT_TRUE(eventually([&] { return with_status("processed") == 1; }));
  EXPECT_EQ(with_status("failed"), 1);
}

TEST_F(MappedRoad, EachRowThatSaysWhenItWasSentLeadsToOneReceipt) {
  const auto pay = [&](int rows) {
    must(application,
         "INSERT INTO outbox (aggregate_id, payload) SELECT n, to_jsonb(n) FROM "
         "generate_series(1, " +
             std::to_string(rows) + ") AS n");
  };
  pay(50);
  MemorySink sinks[2];
  {
    RunningLane first(database.conninfo, mapping, sinks[0], 0, 2);
    RunningLane second(database.conninfo, mapping, sinks[1], 1, 2);
    EXPECT_TRUE(eventually([&] { return with_status("pending") == 0; }));
    pay(50);
    EXPECT_TRUE(eventually([&] { return with_status("pending") == 0; }));
  }
  EXPECT_EQ(number(application, "SELECT sum(events) FROM dovetail.receipt"), 100);
  EXPECT_LT(number(application, "SELECT count(*) FROM dovetail.receipt"), 50);
  EXPECT_EQ(number(application,
                   "SELECT count(*) FROM outbox AS o WHERE (SELECT count(*) FROM dovetail.receipt "
                   "AS r WHERE r.relay = 'mapped' AND (EXTRACT(epoch FROM o.processed_at) * "
                   "1000000)::int8 BETWEEN r.first_seq AND r.last_seq AND dovetail.bucket("
                   "o.aggregate_type, o.aggregate_id, o.id) BETWEEN r.first_bucket AND "
                   "r.last_bucket) = 1"),
            100);
  must(application, "DELETE FROM dovetail.receipt");
  // Nothing leads from such a row to a receipt.
  mapping.when_delivered = {{"status", Assignment::Value::text, "processed"}};
  pay(5);
  RunningLane first(database.conninfo, mapping, sinks[0], 0, 2);
  RunningLane second(database.conninfo, mapping, sinks[1], 1, 2);
  EXPECT_TRUE(eventually([&] { return with_status("pending") == 0; }));
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.receipt"), 0);
}

}  // namespace
}  // namespace dovetail::postgres
