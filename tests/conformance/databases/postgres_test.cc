// The PostgreSQL adapters pass the suites for all adapters on a real server: directly, through a
// pooler in transaction mode, and by reading the WAL.
#include "dovetail/postgres.h"

#include <mutex>

#include "conformance/databases/postgres_sources.h"
#include "conformance/lane_suite.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/outbox/source.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::conformance {
namespace {

using postgres::Connection;
using postgres::Params;
using postgres::PostgresSource;
using postgres::Reader;
using postgres::ReadMode;
using postgres::TestDatabase;

enum class Path { direct, pooled };

// A database with dovetail's tables, and how to reach it.
class Store {
 public:
  explicit Store(Path path) {
    Connection connection = database_.connect();
    const Status created = create_schema(connection);
    EXPECT_TRUE(created) << created.error().text;
    conninfo_ = path == Path::direct
                    ? database_.conninfo
                    : servers::with_database(servers::find("pgbouncer").conninfo, database_.name);
  }

  const std::string& conninfo() const { return conninfo_; }
  void publish(const NewEvent& event) {
    const std::lock_guard lock(mutex_);
    if (!publisher_) {
      Result<Connection> connection = Connection::open(conninfo_);
      ASSERT_TRUE(connection) << connection.error().text;
      publisher_ = std::move(*connection);
    }
    ASSERT_TRUE(publisher_.execute("BEGIN"));
    const Result<EventId> id = postgres::publish_and_commit(publisher_.get(), event);
    ASSERT_TRUE(id) << id.error().text;
  }
  Reader reader() const {
    Reader reader;
    reader.conninfo = conninfo_;
    reader.relay = "test";
    return reader;
  }
  Connection connect() const { return database_.connect(); }

 private:
  TestDatabase database_;
  std::string conninfo_;
  std::mutex mutex_;
  Connection publisher_;
};

template <Path kPath>
class PostgresOutbox final : public SourceUnderTest {
 public:
  SourceAbilities abilities() const override { return {}; }
  std::unique_ptr<Source> make() override {
    return std::make_unique<OwningSource<PostgresSource>>(store_.reader(), system_clock());
  }
  void publish(const NewEvent& event) override { store_.publish(event); }

 private:
  Store store_{kPath};
};

// The same outbox, read from the WAL.
template <ReadMode kMode>
class PostgresLog final : public SourceUnderTest {
 public:
  SourceAbilities abilities() const override {
    SourceAbilities abilities;
    abilities.arrival_max = milliseconds(300);
    return abilities;
  }
  std::unique_ptr<Source> make() override {
    const auto options = [](PostgresSource&) {
      postgres::WalSourceOptions of_mode;
      of_mode.reading.mode = kMode;
      return of_mode;
    };
    return std::make_unique<OwningLogSource<PostgresSource>>(store_.reader(), options,
                                                             system_clock());
  }
  void publish(const NewEvent& event) override { store_.publish(event); }

 private:
  Store store_{Path::direct};
};

// The database's clock cannot be moved; the times that it is compared with can.
class ClockShift {
 public:
  ClockShift(Store& store, TestClock& clock)
      : connection_(store.connect()), clock_(clock), applied_(clock.wall()) {}
  void apply() {
    const Duration passed = clock_.wall() - applied_;
    applied_ = clock_.wall();
    ASSERT_TRUE(connection_.query(
        "UPDATE dovetail.relay_lane SET expires = expires - $1 * interval '1 microsecond'",
        Params().int8(passed.count())));
    ASSERT_TRUE(connection_.query(
        "UPDATE dovetail.parked SET retry_at = retry_at - $1 * interval '1 microsecond'",
        Params().int8(passed.count())));
  }

 private:
  Connection connection_;
  TestClock& clock_;
  WallTime applied_;
};

class ShiftedLease final : public Lease {
 public:
  ShiftedLease(std::unique_ptr<Lease> lease, ClockShift& shift)
      : lease_(std::move(lease)), shift_(shift) {}
  Status acquire() override {
    shift_.apply();
    return lease_->acquire();
  }
  Status renew() override {
    shift_.apply();
    return lease_->renew();
  }
  Status release() override { return lease_->release(); }
  TimePoint deadline() const override { return lease_->deadline(); }
  TimePoint renew_at() const override { return lease_->renew_at(); }

 private:
  std::unique_ptr<Lease> lease_;
  ClockShift& shift_;
};

template <Path kPath>
class PostgresLane final : public LaneUnderTest {
 public:
  LaneOwner join(const std::string& name) override {
    auto reader = std::make_shared<Reader>(store_.reader());
    LaneOwner owner;
    owner.lease = std::make_unique<ShiftedLease>(
        std::make_unique<postgres::PostgresLease>(*reader, clock, name, kTerm), shift_);
    owner.source = std::make_unique<postgres::PostgresSource>(*reader, clock);
    owner.parking = std::make_unique<postgres::PostgresParking>(*reader);
    owner.state = std::move(reader);
    return owner;
  }
  void publish(const NewEvent& event) override { store_.publish(event); }
  std::optional<std::vector<KeptReceipt>> receipts() override {
    Connection connection = store_.connect();
    const auto rows = connection.query(
        "SELECT split_part(owner, '#', 1), first_seq, last_seq, events, places FROM "
        "dovetail.receipt "
        "ORDER BY at");
    EXPECT_TRUE(rows) << rows.error().text;
    std::vector<KeptReceipt> kept;
    for (std::size_t i = 0; i < rows->size(); ++i)
      kept.push_back({std::string(rows->text(i, 0)), rows->int8(i, 1), rows->int8(i, 2),
                      rows->int8(i, 3), std::string(rows->text(i, 4))});
    return kept;
  }

 private:
  Store store_{kPath};
  ClockShift shift_{store_, clock};
};

template <class Base, class Derived>
std::unique_ptr<Base> make() {
  return std::make_unique<Derived>();
}

const auto kSources = testing::Values(
    SourceCase{"direct", make<SourceUnderTest, PostgresOutbox<Path::direct>>},
    SourceCase{"pooled", make<SourceUnderTest, PostgresOutbox<Path::pooled>>},
    SourceCase{"automatic", make<SourceUnderTest, PostgresLog<ReadMode::automatic>>},
    SourceCase{"wal", make<SourceUnderTest, PostgresLog<ReadMode::wal>>});
const auto kLanes =
    testing::Values(LaneCase{"direct", make<LaneUnderTest, PostgresLane<Path::direct>>},
                    LaneCase{"pooled", make<LaneUnderTest, PostgresLane<Path::pooled>>});

INSTANTIATE_TEST_SUITE_P(Postgres, SourceSuite, kSources, case_name<SourceCase>);
INSTANTIATE_TEST_SUITE_P(Postgres, LeaseSuite, kLanes, case_name<LaneCase>);
INSTANTIATE_TEST_SUITE_P(Postgres, ParkingSuite, kLanes, case_name<LaneCase>);

}  // namespace
}  // namespace dovetail::conformance
