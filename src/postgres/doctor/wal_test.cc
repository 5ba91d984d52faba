#include <algorithm>
#include <memory>

#include "host/host.h"
#include "postgres/doctor/doctor.h"
#include "postgres/lane/reader.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

// One database for all: making it is what takes time.
class DoctorOfTheWal : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared = std::make_unique<TestDatabase>();
    Connection connection = shared->connect();
    const Status made = create_schema(connection);
    ASSERT_TRUE(made) << text_of(made);
  }
  static void TearDownTestSuite() { shared.reset(); }

  static DoctorOptions automatic() {
    DoctorOptions options;
    options.wal_readers = {{.relay = "shop"}};
    return options;
  }
  static DoctorOptions wal() {
    DoctorOptions options;
    options.wal_readers = {{.relay = "shop", .reading = {.mode = ReadMode::wal}}};
    return options;
  }
  std::vector<Finding> look(const DoctorOptions& options, const std::string& user = "") {
    const auto found =
        examine(database.conninfo + (user.empty() ? "" : " user=" + user), options, system_clock());
    EXPECT_TRUE(found) << text_of(found);
    return found.value_or(std::vector<Finding>{});
  }
  static std::string shown(const std::vector<Finding>& all) {
    std::string text;
    for (const Finding& one : all)
      text += std::string(to_string(one.severity)) + " " + one.code + ": " + one.what + " -> " +
              one.what_to_do + "\n";
    return text;
  }
  // Severity, code and words of one finding.
  static bool has(const std::vector<Finding>& all, Severity severity, std::string_view code,
                  std::string_view words) {
    return std::any_of(all.begin(), all.end(), [&](const Finding& one) {
      return one.severity == severity && one.code == code &&
             contains(one.what + " " + one.what_to_do, words);
    });
  }
  static bool has(const std::vector<Finding>& all, std::string_view code) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Finding& one) { return one.code == code; });
  }
  void make_role(const std::string& name, const std::string& options) {
    must(application, "CREATE ROLE " + name + " LOGIN " + options);
    must(application, "GRANT pg_monitor TO " + name);
    must(application, "GRANT USAGE ON SCHEMA dovetail TO " + name);
    must(application, "GRANT SELECT ON ALL TABLES IN SCHEMA dovetail TO " + name);
    role_ = name;
  }
  ~DoctorOfTheWal() override {
    must(application, "SELECT pg_drop_replication_slot(slot_name)" + kOurSlots + " AND NOT active");
    must(application, "DELETE FROM dovetail.relay_lane");
    if (role_.empty()) return;
    must(application, "DROP OWNED BY " + role_);
    must(application, "DROP ROLE " + role_);
  }
  void make_slot(const std::string& name) {
    must(application, "SELECT pg_create_logical_replication_slot('" + name + "', 'pgoutput')");
  }
  std::string own() const { return slot_name("shop", database.name); }
  void make_relay() {
    ASSERT_TRUE(ensure_relay(application, {.relay = "shop"}));
    must(application, "UPDATE dovetail.relay_lane SET slot = '" + own() + "'");
  }

  const std::string kOurSlots = " FROM pg_replication_slots WHERE database = current_database()";
  static std::unique_ptr<TestDatabase> shared;
  const TestDatabase& database = *shared;
  Connection application = database.connect();
  std::string role_;
};
std::unique_ptr<TestDatabase> DoctorOfTheWal::shared;

TEST_F(DoctorOfTheWal, WritesAProbeAndSeesItComeOut) {
  const std::vector<Finding> all = look(automatic());
  EXPECT_FALSE(has(all, "log-proof")) << shown(all);
  EXPECT_FALSE(has(all, "log-unreadable")) << shown(all);
  EXPECT_TRUE(eventually([&] { return number(application, "SELECT count(*)" + kOurSlots) == 0; }))
      << "it leaves nothing behind";
}

TEST_F(DoctorOfTheWal, SaysWhenTheProbeWaitsForAnOpenTransaction) {
  Connection other = database.connect();
  must(other, "BEGIN; SELECT pg_current_xact_id()");
  DoctorOptions options = automatic();
  options.proof_wait_max = 300ms;
  options.slot_wait_max = 0s;
  const std::vector<Finding> all = look(options);
  EXPECT_TRUE(has(all, Severity::warning, "log-proof", "waits for open transactions"))
      << shown(all);
  EXPECT_TRUE(has(all, Severity::note, "slot-waits", " is open")) << shown(all);
  must(other, "PREPARE TRANSACTION 'p_" + database.name + "'");
  options.proof_wait_max = 0s;
  // The oldest is named, which may be one of another test for a while.
  EXPECT_TRUE(eventually([&] {
    return has(look(options), Severity::note, "slot-waits",
               "prepared transaction 'p_" + database.name);
  }));
  must(other, "ROLLBACK PREPARED 'p_" + database.name + "'");
}

TEST_F(DoctorOfTheWal, NamesTheRightThatIsMissingAsAFaultOnlyWhereTheLogIsRequired) {
  make_role("doctor_of_" + database.name, "");
  const std::vector<Finding> required = look(wal(), role_);
  EXPECT_TRUE(has(required, Severity::error, "log-unreadable", "REPLICATION")) << shown(required);
  const std::vector<Finding> wanted = look(automatic(), role_);
  EXPECT_TRUE(has(wanted, Severity::note, "log-unreadable", "REPLICATION")) << shown(wanted);
}

TEST_F(DoctorOfTheWal, NeedsNoSuperuser) {
  make_role("doctor_of_" + database.name, "REPLICATION");
  const std::vector<Finding> all = look(automatic(), role_);
  EXPECT_FALSE(has(all, "log-unreadable")) << shown(all);
  EXPECT_FALSE(has(all, "log-proof")) << shown(all);
  EXPECT_FALSE(has(all, "not-examined")) << shown(all);
}

TEST_F(DoctorOfTheWal, FindsAPublicationThatLeavesEventsOut) {
  must(application, "ALTER PUBLICATION dovetail_outbox SET (publish = 'update')");
  {
    const std::vector<Finding> all = look(wal());
    EXPECT_TRUE(has(all, Severity::error, "log-unreadable", "publishes no inserts")) << shown(all);
  }
  must(application, "DROP PUBLICATION dovetail_outbox");
  const std::vector<Finding> all = look(wal());
  EXPECT_TRUE(has(all, Severity::error, "log-unreadable", "is not there")) << shown(all);
  must(application,
       "CREATE PUBLICATION dovetail_outbox FOR TABLE dovetail.outbox WITH (publish = 'insert', "
       "publish_via_partition_root = true)");
}

TEST_F(DoctorOfTheWal, FindsASlotThatNobodyReadsAndSaysHowMuchItKeeps) {
  make_relay();
  make_slot(own());
  DoctorOptions options = wal();
  {
    const std::vector<Finding> all = look(options);
    EXPECT_TRUE(has(all, Severity::note, "slot-idle", own())) << shown(look(options));
    options.idle_slot_bytes_max = -1;
    EXPECT_TRUE(has(look(options), Severity::warning, "slot-idle", "B of WAL")) << shown(all);
  }
}

TEST_F(DoctorOfTheWal, FindsASlotWhoseRelayReadsAnotherWay) {
  make_relay();
  make_slot(own());
  const std::vector<Finding> all = look(automatic());
  EXPECT_TRUE(has(all, Severity::warning, "slot-unused", "--force")) << shown(all);
}

TEST_F(DoctorOfTheWal, FindsASlotOfARelayThatNoLongerExists) {
  make_slot(own());
  const std::vector<Finding> all = look({});
  EXPECT_TRUE(has(all, Severity::warning, "slot-orphan", "dovetail slots --drop " + own()))
      << shown(all);
}

TEST_F(DoctorOfTheWal, WarnsOfAServerThatKeepsItsLogWithoutLimit) {
  {
    const std::vector<Finding> all = look(wal());
    EXPECT_TRUE(has(all, Severity::warning, "keep-size", "max_slot_wal_keep_size")) << shown(all);
  }
  EXPECT_FALSE(has(look(automatic()), "keep-size")) << "its slot ends with the connection";
}

TEST_F(DoctorOfTheWal, SaysNothingOfALogThatNobodyMeansToRead) {
  make_role("doctor_of_" + database.name, "");
  const std::vector<Finding> all = look({}, role_);
  for (const char* code : {"log-unreadable", "log-proof", "keep-size", "no-slot-free"})
    EXPECT_FALSE(has(all, code)) << shown(all);
}

TEST_F(DoctorOfTheWal, SaysWhereReplicationCannotBeReached) {
  DoctorOptions options = wal();
  options.replication_conninfo = "host=127.0.0.1 port=1 user=nobody dbname=nothing";
  const std::vector<Finding> all = look(options);
  EXPECT_TRUE(has(all, Severity::error, "replication-url", "check")) << shown(all);
}

}  // namespace
}  // namespace dovetail::postgres
