// HTTP requests in a SQLite file.
#include "conformance/request_suite.h"
#include "core/testing/test_clock.h"
#include "sqlite/connection/session.h"
#include "sqlite/testing/test_file.h"
#include "sqlite/work/requests.h"

namespace dovetail::conformance {
namespace {

class Service final : public OwnTransaction {
 public:
  explicit Service(const std::string& path) : application_(path) {}
  void begin() override { ASSERT_EQ(application_.run("BEGIN IMMEDIATE"), SQLITE_OK); }
  void commit() override { ASSERT_EQ(application_.run("COMMIT"), SQLITE_OK); }
  void rollback() override { ASSERT_EQ(application_.run("ROLLBACK"), SQLITE_OK); }
  Result<RequestTicket> begin_request(const RequestKey& request,
                                      std::chrono::milliseconds keep) override {
    return sqlite::begin_request(application_.connection, request, keep);
  }
  Status finish_request(const RequestKey& request, const EventId& token,
                        const StoredResponse& response) override {
    return sqlite::finish_request(application_.connection, request, token, response);
  }

 private:
  sqlite::Application application_;
};

// Ahead of the machine's clock by the test's passed time, and set: functions for services use the
// real clock.
class AheadClock final : public Clock {
 public:
  TimePoint now() override { return system_clock().now() + ahead; }
  WallTime wall() override { return system_clock().wall() + ahead + step; }
  void sleep(Duration duration, std::stop_token stop) override {
    system_clock().sleep(duration, std::move(stop));
  }
  Duration ahead{0};
  Duration step{0};
};

class SqliteRequests final : public RequestsUnderTest {
 public:
  std::unique_ptr<RequestStore> make() override {
    return std::make_unique<sqlite::SqliteRequestStore>(file_.path, clock_, boot_id());
  }
  std::unique_ptr<OwnTransaction> connect() override {
    return std::make_unique<Service>(file_.path);
  }
  void elapse(std::chrono::milliseconds time) override { clock_.ahead += time; }
  void set_clock(std::chrono::hours step) override { clock_.step += step; }
  std::vector<RequestInfo> list(const RequestFilter& filter) override {
    return sqlite::list_requests(file_.path, filter, clock_, boot_id()).value();
  }
  Result<bool> forget(const RequestKey& request, std::string_view reason) override {
    return sqlite::forget_request(file_.path, request, reason, clock_, boot_id());
  }
  std::uint64_t prune(std::size_t rows_max) override {
    sqlite::SqliteSession session(file_.path, sqlite::Durability::full, clock_, boot_id());
    EXPECT_TRUE(session.connect());
    return SqlRequests(session, sqlite::request_statements()).prune(rows_max).value();
  }

 private:
  sqlite::TestFile file_;
  AheadClock clock_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, Requests,
                         testing::Values(RequestCase{"file",
                                                     []() -> std::unique_ptr<RequestsUnderTest> {
                                                       return std::make_unique<SqliteRequests>();
                                                     }}),
                         case_name<RequestCase>);

TEST(SqliteRequests, ALeaseDoesNotOutliveTheBoot) {
  sqlite::TestFile file;
  TestClock clock;
  sqlite::SqliteRequestStore before(file.path, clock, "boot 1");
  ASSERT_TRUE(before.open());
  const RequestKey request{"shop", "key", "print"};
  ASSERT_EQ(before.begin(request, {}, new_event_id())->state, RequestState::first);
  sqlite::SqliteRequestStore after(file.path, clock, "boot 2");
  ASSERT_TRUE(after.open());
  EXPECT_EQ(after.begin(request, {}, new_event_id())->state, RequestState::unknown);
}

}  // namespace
}  // namespace dovetail::conformance
