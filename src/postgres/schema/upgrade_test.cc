// Databases of older versions, with events, parked events, a running lease and claims, are upgraded
// in place.
#include "postgres/lane/lease.h"
#include "postgres/operate/admin.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

// In the words of version 5: the relay has delivered five events, one is parked and one waits
// behind it. One parked event was replayed since. Three are pending.
constexpr std::string_view kEvents =
    "SELECT dovetail.publish('order', (n % 4)::text, 'placed', '{}', id => "
    "('01900000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid) FROM generate_series(1, 7) AS n";
constexpr std::string_view kWork =
    "INSERT INTO dovetail.reader (relay, lane, lanes, owner, epoch, expires, settled_total, "
    "parked_total, prev, passed_seq) VALUES ('shop', 0, 1, 'host:1@x#2', 7, clock_timestamp() + "
    "interval '1 hour', 7, 3, pg_current_snapshot(), 7); "
    "INSERT INTO dovetail.reader (relay, lane, lanes, mapped) VALUES ('rows', 0, 1, true); "
    "INSERT INTO dovetail.reader (relay, lane, lanes, mapped, outside) VALUES ('from-bus', 0, "
    "1, "
    "true, true); "
    "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, type, "
    "content_type, headers, payload, aggregate_version, created_at, state, attempts, reason, "
    "retry_at, finished_at) SELECT 'shop', id, seq, topic, aggregate_type, aggregate_id, type, "
    "content_type, headers, payload, aggregate_version, created_at, CASE seq WHEN 1 THEN 'parked' "
    "WHEN 5 THEN 'waiting' ELSE 'delivered' END, 15, 'refused', clock_timestamp(), CASE WHEN seq = "
    "2 THEN clock_timestamp() END FROM dovetail.outbox WHERE seq IN (1, 2, 5); "
    "SELECT dovetail.refresh_heads('shop', '{order}', '{1}')";
constexpr std::string_view kConsumers =
    "SELECT dovetail.claim('stock', '01900000-0000-7000-8000-000000000001'); "
    "INSERT INTO dovetail.consumer_lane (consumer_id, lane, clean, applied, duplicates) SELECT "
    "id, "
    "1, false, 3, 1 FROM dovetail.consumer WHERE name = 'stock'; "
    "SELECT dovetail.enqueue('queue', '{01900000-0000-7000-8000-000000000003}', '{\"\"}', "
    "'{order}', '{3}', '{placed}', '{application/json}', '{\"\"}', ARRAY['{}'::bytea], '{0}', "
    "ARRAY[now()])";
constexpr std::string_view kGrants =
    "GRANT USAGE ON SCHEMA dovetail TO dovetail_relay; GRANT UPDATE ON dovetail.reader TO "
    "dovetail_relay; INSERT INTO dovetail.schema_made (kind, name, definition, server) SELECT "
    "kind, "
    "name, definition, 0 FROM dovetail.schema_objects() WHERE kind = 'right'";

class Upgrade : public testing::TestWithParam<std::size_t> {
 protected:
  Upgrade() {
    TestDatabase other;
    Connection elsewhere = other.connect();
    EXPECT_TRUE(create_roles(elsewhere)) << "roles are the cluster's";
    const Status made = create_schema(sql_.get(), migrations().first(GetParam()));
    EXPECT_TRUE(made) << text_of(made);
    must(sql_, std::string(kEvents));
    must(sql_, std::string(kWork));
    must(sql_, std::string(kConsumers));
    must(sql_, std::string(kGrants));
    if (GetParam() == 9)
      must(sql_, "UPDATE dovetail.reader SET replayed_total = 1 WHERE relay = 'shop'");
    must(sql_, "SELECT dovetail.publish('order', '9', 'placed', '{}') FROM generate_series(1, 3)");
    claim_ = number(sql_, "SELECT epoch FROM dovetail.claim('mail', " + id(4) + ", '1 hour')");
    taken_ = number(sql_, "SELECT epoch FROM dovetail.receive('queue')");
    token_ =
        text(sql_, "SELECT token::text FROM dovetail.lease_request('api', 'key', 'x', '1 hour')");
    must(sql_, "CREATE VIEW public.mine AS SELECT relay, lane, settled_total FROM dovetail.reader");
  }
  static std::string id(int n) {
    return "'01900000-0000-7000-8000-00000000000" + std::to_string(n) + "'";
  }
  void update() {
    const Status updated = create_schema(sql_);
    ASSERT_TRUE(updated) << text_of(updated);
  }

  TestDatabase database_{"postgres", Tables::none};
  Connection sql_ = database_.connect();
  std::int64_t claim_ = 0;
  std::int64_t taken_ = 0;
  std::string token_;
};

TEST_P(Upgrade, KeepsLanesWithTheirLeasesProgressAndCounts) {
  update();
  EXPECT_EQ(text(sql_,
                 "SELECT string_agg(concat_ws(' ', relay, lane, source, owner, epoch, "
                 "delivered_total, parked_total, replayed_total, passed_seq), ', ' ORDER BY relay) "
                 "FROM dovetail.relay_lane"),
            "from-bus 0 broker  0 0 0 0 0, rows 0 mapped  0 0 0 0 0, "
            "shop 0 outbox host:1@x#2 7 5 3 1 7");
  const Result<StoreStatus> seen = status(database_.conninfo);
  ASSERT_TRUE(seen) << text_of(seen);
  const LaneStatus& shop = seen->lanes.back();
  EXPECT_EQ(shop.pending, 3U);
  EXPECT_GT(shop.lease_left, std::chrono::minutes(50)) << "the lease still runs";
  EXPECT_EQ(text(sql_, "SELECT held::text FROM dovetail.lag WHERE relay = 'shop'"), "true");
  EXPECT_EQ(text(sql_, "SELECT settled_total::text FROM public.mine WHERE relay = 'shop'"), "5")
      << "views of others follow";
}

TEST_P(Upgrade, KeepsParkedEventsAndReadsOnBehindTheWindow) {
  update();
  EXPECT_EQ(text(sql_,
                 "SELECT string_agg(n || ' ' || state, ', ' ORDER BY state) FROM (SELECT state, "
                 "count(*) AS n FROM dovetail.events GROUP BY state) AS counts"),
            "5 delivered, 1 parked, 3 pending, 1 waiting");
  EXPECT_EQ(number(sql_,
                   "SELECT count(*) FROM dovetail.parked WHERE bucket = "
                   "dovetail.bucket(aggregate_type, aggregate_id, id)"),
            3);
  EXPECT_EQ(number(sql_,
                   "SELECT w.events FROM dovetail.relay_lane AS r, LATERAL "
                   "dovetail.read_window(pg_snapshot_xmax(r.window_start), "
                   "ARRAY(SELECT pg_snapshot_xip(r.window_start)), 0, 255, 100, 100000) AS w "
                   "WHERE r.relay = 'shop' AND w.id IS NULL"),
            3);
  EXPECT_EQ(
      number(sql_, "SELECT dovetail.replay_parked('shop', NULL, '', '', '', '', 'it is mended')"),
      1);
}

TEST_P(Upgrade, KeepsClaimsTakenEventsAndRequests) {
  update();
  EXPECT_EQ(text(sql_, "SELECT dovetail.claim('stock', " + id(1) + ")"), "duplicate");
  EXPECT_EQ(text(sql_, "SELECT state FROM dovetail.claim('mail', " + id(4) + ", '1 s')"),
            "in_progress");
  must(sql_, "SELECT dovetail.complete('mail', " + id(4) + ", " + std::to_string(claim_) + ")");
  must(sql_, "SELECT dovetail.complete('queue', " + id(3) + ", " + std::to_string(taken_) + ")");
  must(sql_, "SELECT dovetail.finish_request('api', 'key', '" + token_ + "', 200)");
  EXPECT_EQ(text(sql_,
                 "SELECT concat_ws(' ', session, clean, applied, duplicates) FROM "
                 "dovetail.consumer_session"),
            "1 f 3 1");
}

TEST_P(Upgrade, RefusesOlderProgramsAndSaysWhatToDo) {
  update();
  const Result<std::int64_t> older = check_schema(sql_, 9);
  EXPECT_TRUE(failed_with(older, Errc::corrupt));
  EXPECT_TRUE(contains(text_of(older), "upgrade dovetail")) << text_of(older);
}

TEST_P(Upgrade, GrantsTheRightsOnTheNewNames) {
  update();
  EXPECT_EQ(text(sql_,
                 "SELECT concat(has_any_column_privilege('dovetail_relay', 'dovetail.relay_lane', "
                 "'UPDATE'), has_function_privilege('dovetail_relay', 'dovetail.read_window(xid8, "
                 "xid8[], int, int, bigint, bigint)', 'EXECUTE'), "
                 "has_function_privilege('dovetail_app', 'dovetail.bucket(text, text, uuid)', "
                 "'EXECUTE'))"),
            "ttt");
}

INSTANTIATE_TEST_SUITE_P(FromVersion, Upgrade, testing::Values(5, 9),
                         [](const auto& version) { return std::to_string(version.param); });

// In the words of version 10.
TEST(UpgradeFrom, Version10KeepsRelaysAndHoldsNone) {
  TestDatabase database("postgres", Tables::none);
  Connection sql = database.connect();
  ASSERT_TRUE(create_schema(sql.get(), migrations().first(10)));
  must(sql,
       "INSERT INTO dovetail.relay_lane (relay, lane, lanes, owner, epoch, expires, "
       "delivered_total) VALUES ('shop', 0, 1, 'host:1@x#2', 7, clock_timestamp() + interval "
       "'1 hour', 5)");
  const Status updated = create_schema(sql);
  ASSERT_TRUE(updated) << text_of(updated);
  EXPECT_EQ(text(sql,
                 "SELECT concat_ws('|', relay, owner, epoch, delivered_total, skipped_total, "
                 "hold) FROM dovetail.relay_lane"),
            "shop|host:1@x#2|7|5|0|");
  EXPECT_TRUE(check_schema(sql, 10)) << "a program of that version may still use it";
}

// Partitions of before keep their own defaults.
TEST(UpgradeFrom, Version12TakesEventsIntoItsPartitionsAsBefore) {
  TestDatabase database("postgres", Tables::none);
  Connection sql = database.connect();
  ASSERT_TRUE(create_schema(sql.get(), migrations().first(12)));
  must(sql,
       "CREATE TABLE dovetail.outbox_before PARTITION OF dovetail.outbox FOR VALUES FROM "
       "('00000000-0000-0000-0000-000000000000') TO ('7fffffff-ffff-ffff-ffff-ffffffffffff')");
  const std::string publish =
      "SELECT dovetail.publish('order', 17, 'placed', '{}'); INSERT INTO dovetail.outbox "
      "(aggregate_type, aggregate_id, type, payload) VALUES ('order', '17', 'placed', '{}')";
  must(sql, publish);
  const Status updated = create_schema(sql);
  ASSERT_TRUE(updated) << text_of(updated);
  must(sql, publish);
  EXPECT_EQ(
      text(sql,
           "SELECT concat(count(*), ' ', count(DISTINCT (topic, aggregate_type, aggregate_id, "
           "type, content_type, headers, payload, aggregate_version)), ' ', max(content_type)) "
           "FROM dovetail.outbox_before"),
      "4 1 application/json");
  EXPECT_TRUE(check_schema(sql, 12)) << "a program of that version may still use it";
}

}  // namespace
}  // namespace dovetail::postgres
