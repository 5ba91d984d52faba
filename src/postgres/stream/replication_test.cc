#include "postgres/stream/replication.h"

#include "postgres/testing/test_wal.h"

namespace dovetail::postgres {
namespace {

using ReplicationTest = OnOutbox;

// Waits for the answer, whatever it is.
Result<std::optional<CreatedSlot>> answer(Replication& replication) {
  Result<std::optional<CreatedSlot>> made = std::optional<CreatedSlot>();
  EXPECT_TRUE(eventually([&] {
    made = replication.slot_made();
    return !made || made->has_value();
  }));
  return made;
}

TEST_F(ReplicationTest, ASlotShowsASnapshotOfItsStart) {
  publish(connection, "before", "{}");
  Replication replication = open_replication(database.conninfo);
  const CreatedSlot made = make_slot(replication, slot, true);
  EXPECT_GT(made.start, WalPosition{});
  publish(connection, "behind", "{}");
  must(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '" +
                       made.exported_snapshot + "'");
  EXPECT_EQ(text(connection, "SELECT string_agg(aggregate_id, ',') FROM dovetail.outbox"),
            "before");
}

TEST_F(ReplicationTest, ASnapshotLastsLongerThanIdleSessionsMay) {
  Replication replication =
      open_replication(database.conninfo + " options='-c idle_in_transaction_session_timeout=50'");
  const CreatedSlot made = make_slot(replication, slot, true);
  must(connection, "SELECT pg_sleep(0.3)");
  must(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '" +
                       made.exported_snapshot + "'; COMMIT");
}

TEST_F(ReplicationTest, ASlotWaitsForTransactionsThatAreOpenAndItIsKnownForWhich) {
  Connection writer = database.connect();
  must(writer, "BEGIN; SELECT pg_current_xact_id()");
  const std::string pid = text(writer, "SELECT pg_backend_pid()::text");
  Replication replication = open_replication(database.conninfo);
  ASSERT_TRUE(replication.ask_for_slot(slot, true, false));
  EXPECT_TRUE(eventually([&] {
    const auto who = who_holds_up(connection, replication.backend_pid());
    EXPECT_TRUE(who) << text_of(who);
    return who && *who && contains(**who, "process " + pid + " (dovetail, idle in transaction");
  }));
  const auto early = replication.slot_made();
  ASSERT_TRUE(early) << text_of(early);
  EXPECT_FALSE(early->has_value());
  must(writer, "COMMIT");
  const auto made = answer(replication);
  EXPECT_TRUE(made) << text_of(made);
  EXPECT_EQ(text_of(who_holds_up(connection, replication.backend_pid())), "ok");
}

TEST_F(ReplicationTest, ASlotThatWaitsForAPreparedTransactionSaysSo) {
  must(connection, "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION '" + slot + "'");
  Replication replication = open_replication(database.conninfo);
  ASSERT_TRUE(replication.ask_for_slot(slot, true, false));
  EXPECT_TRUE(eventually([&] {
    const auto who = who_holds_up(connection, replication.backend_pid());
    return who && *who && contains(**who, "a prepared transaction");
  }));
  must(connection, "ROLLBACK PREPARED '" + slot + "'");
  EXPECT_TRUE(answer(replication));
}

TEST_F(ReplicationTest, ASlotThatIsGivenUpWhileItWaitsIsNotLeftBehind) {
  Connection writer = database.connect();
  must(writer, "BEGIN; SELECT pg_current_xact_id()");
  for (const bool temporary : {true, false}) {
    Replication replication = open_replication(database.conninfo);
    ASSERT_TRUE(replication.ask_for_slot(slot, temporary, false));
    ASSERT_TRUE(eventually([&] {
      const auto who = who_holds_up(connection, replication.backend_pid());
      return who && *who;
    }));
    replication.close();
    EXPECT_TRUE(eventually([&] {
      const auto found = find_slot(connection, slot);
      return found && !*found;
    }));
  }
}

TEST_F(ReplicationTest, ATemporarySlotEndsWithItsConnection) {
  Replication replication = open_replication(database.conninfo);
  make_slot(replication, slot, true);
  EXPECT_TRUE(*find_slot(connection, slot));
  replication.close();
  EXPECT_TRUE(eventually([&] { return !*find_slot(connection, slot); }));
}

TEST_F(ReplicationTest, ARoleWithoutTheRightIsToldWhatItLacks) {
  must(connection, "CREATE ROLE " + slot + " LOGIN");
  const Result<Replication> refused = Replication::open(database.conninfo + " user=" + slot);
  EXPECT_TRUE(failed_with(refused, Errc::rejected)) << text_of(refused);
  EXPECT_TRUE(contains(text_of(refused), "ALTER ROLE ... REPLICATION")) << text_of(refused);
  EXPECT_TRUE(contains(text_of(refused), slot)) << text_of(refused);
  Connection plain = database.connect(slot);
  const auto why = why_not_streamed(plain, kOutboxPublication);
  ASSERT_TRUE(why && *why) << text_of(why);
  EXPECT_TRUE(contains(**why, "\"" + slot + "\" may not replicate")) << **why;

  must(connection, "ALTER ROLE " + slot + " REPLICATION");
  const auto none = why_not_streamed(plain, kOutboxPublication);
  EXPECT_TRUE(none && !*none) << (none && *none ? **none : text_of(none));
  plain.close();
  EXPECT_EQ(text_of(Replication::open(database.conninfo + " user=" + slot)), "ok");
  must(connection, "DROP ROLE " + slot);
}

TEST_F(ReplicationTest, APoolerIsRefusedWithTheWayPastIt) {
  const std::string pooler =
      servers::with_database(servers::find("pgbouncer").conninfo, database.name);
  const Result<Replication> refused = Replication::open(pooler);
  EXPECT_TRUE(failed_with(refused, Errc::rejected)) << text_of(refused);
  EXPECT_TRUE(contains(text_of(refused), "set replication_url to the server itself"))
      << text_of(refused);
}

TEST_F(ReplicationTest, AServerThatIsNotThereIsUnavailable) {
  EXPECT_TRUE(failed_with(Replication::open("host=127.0.0.1 port=1"), Errc::unavailable));
}

TEST_F(ReplicationTest, ASlotThatSomebodyUsesIsUnavailableAndTheProcessIsNamed) {
  Replication owner = open_replication(database.conninfo);
  make_slot(owner, slot, false);
  ASSERT_TRUE(owner.start({slot, std::string(kOutboxPublication)}));
  Replication other = open_replication(database.conninfo);
  const Status refused = other.start({slot, std::string(kOutboxPublication)});
  EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
  EXPECT_TRUE(contains(text_of(refused), std::to_string(owner.backend_pid()))) << text_of(refused);
  EXPECT_FALSE(other);
  const Status kept = drop_slot(connection, slot);
  EXPECT_TRUE(failed_with(kept, Errc::unavailable)) << text_of(kept);
  EXPECT_TRUE(contains(text_of(kept), std::to_string(owner.backend_pid()))) << text_of(kept);
}

TEST_F(ReplicationTest, ASlotThatIsNotThereIsUnavailable) {
  Replication replication = open_replication(database.conninfo);
  const Status refused = replication.start({slot, std::string(kOutboxPublication)});
  EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
}

TEST_F(ReplicationTest, ANameThatIsNoneIsRefused) {
  Replication replication = open_replication(database.conninfo);
  EXPECT_TRUE(failed_with(replication.ask_for_slot("", true, false), Errc::rejected));
  ASSERT_TRUE(replication.ask_for_slot("a \"b'; DROP", true, false));
  EXPECT_TRUE(failed_with(answer(replication), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::postgres
