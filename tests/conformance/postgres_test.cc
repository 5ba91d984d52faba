// The PostgreSQL adapters pass the suites that every adapter passes, on a real server, once more
// through a pooler in transaction mode, and once more through the server's log.
#include "dovetail/postgres.h"

#include <deque>
#include <mutex>

#include "conformance/lane_suite.h"
#include "conformance/source_suite.h"
#include "host/host.h"
#include "postgres/lease.h"
#include "postgres/parking.h"
#include "postgres/schema.h"
#include "postgres/source.h"
#include "postgres/test_database.h"
#include "postgres/wal_source.h"

namespace dovetail::conformance {
namespace {

using postgres::Connection;
using postgres::Params;
using postgres::Reader;
using postgres::ReadMode;
using postgres::TestDatabase;
using postgres::Transaction;

enum class Path { direct, pooled };

// A database with dovetail's tables, and the way to it.
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

class OwningSource final : public Source {
 public:
  explicit OwningSource(Reader reader)
      : reader_(std::move(reader)), source_(reader_, system_clock()) {}
  Status open() override {
    reader_.connection.close();
    return source_.open();
  }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    return source_.read(out, limits, stop);
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return source_.settle(batch, fates);
  }
  Status flush() override { return source_.flush(); }

 private:
  Reader reader_;
  postgres::PostgresSource source_;
};

template <Path kPath>
class PostgresOutbox final : public SourceUnderTest {
 public:
  SourceAbilities abilities() const override { return {}; }
  std::unique_ptr<Source> make() override {
    return std::make_unique<OwningSource>(store_.reader());
  }
  void publish(const NewEvent& event) override { store_.publish(event); }

 private:
  Store store_{kPath};
};

// The same outbox, read through the log: what the table gives before that is kept for the reads.
class OwningWalSource final : public Source {
 public:
  OwningWalSource(Reader reader, ReadMode mode)
      : mode_(mode),
        reader_(std::move(reader)),
        source_(reader_, windows_, system_clock(), metrics_, of(mode)) {}
  Status open() override {
    reader_.connection.close();
    early_.clear();
    DOVETAIL_TRY(source_.open());
    const auto end = std::chrono::steady_clock::now() + seconds(90);
    while (metrics_.streams == 0 && std::chrono::steady_clock::now() < end) {
      Batch batch;
      DOVETAIL_TRY(source_.read(batch, Limits{1, 1, milliseconds(5)}, {}));
      const bool is_all = batch.empty();
      if (!is_all) early_.push_back(std::move(batch));
      // No slot is made for a sink that takes nothing.
      if (is_all && mode_ == ReadMode::automatic && !early_.empty()) return {};
    }
    EXPECT_EQ(metrics_.streams, 1U);
    return {};
  }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    DOVETAIL_TRY(source_.tend());
    if (early_.empty()) return source_.read(out, limits, stop);
    do {
      out.append(early_.front().events()[0]);
      early_.pop_front();
    } while (!early_.empty() && out.size() < limits.events_max &&
             out.bytes() + early_.front().bytes() <= limits.bytes_max);
    return {};
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return source_.settle(batch, fates);
  }
  Status flush() override { return source_.flush(); }

 private:
  static postgres::WalSourceOptions of(ReadMode mode) {
    postgres::WalSourceOptions options;
    options.mode = mode;
    return options;
  }
  const ReadMode mode_;
  Reader reader_;
  RelayMetrics metrics_;
  postgres::PostgresSource windows_{reader_, system_clock()};
  postgres::WalSource source_;
  std::deque<Batch> early_;
};

template <ReadMode kMode>
class PostgresLog final : public SourceUnderTest {
 public:
  SourceAbilities abilities() const override {
    SourceAbilities abilities;
    abilities.arrival_max = milliseconds(300);
    return abilities;
  }
  std::unique_ptr<Source> make() override {
    return std::make_unique<OwningWalSource>(store_.reader(), kMode);
  }
  void publish(const NewEvent& event) override { store_.publish(event); }

 private:
  Store store_{Path::direct};
};

// The database's clock cannot be moved; what it compares with can.
class ClockShift {
 public:
  ClockShift(Store& store, TestClock& clock)
      : connection_(store.connect()), clock_(clock), applied_(clock.now()) {}
  void apply() {
    const Duration passed = clock_.now() - applied_;
    applied_ = clock_.now();
    ASSERT_TRUE(connection_.query(
        "UPDATE dovetail.reader SET expires = expires - $1 * interval '1 microsecond'",
        Params().int8(passed.count())));
  }

 private:
  Connection connection_;
  TestClock& clock_;
  TimePoint applied_;
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
