// Claims in PostgreSQL pass the claim suite, directly and through a pooler in transaction
// mode.
#include "conformance/claim_suite.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/clock_step.h"
#include "postgres/testing/test_database.h"
#include "postgres/work/claims.h"

namespace dovetail::conformance {
namespace {

using postgres::TestDatabase;

// One database for all tests; their events are different.
class SharedDatabase final : public testing::Environment {
 public:
  void SetUp() override {
    database = std::make_unique<TestDatabase>();
    postgres::Connection connection = database->connect();
    const Status created = create_schema(connection);
    EXPECT_TRUE(created) << created.error().text;
  }
  void TearDown() override { database.reset(); }
  static inline std::unique_ptr<TestDatabase> database;
};
const auto* const kShared = testing::AddGlobalTestEnvironment(new SharedDatabase);

class DirectClaims : public ClaimsUnderTest {
 public:
  std::unique_ptr<ClaimStore> make(const std::string& consumer) override {
    return std::make_unique<postgres::PostgresClaimStore>(conninfo(), consumer);
  }
  void set_clock(std::chrono::hours step) override {
    postgres::Connection owner = SharedDatabase::database->connect();
    postgres::set_clock(owner, "dovetail.claim", "expires", step);
  }

 protected:
  virtual std::string conninfo() const { return SharedDatabase::database->conninfo; }
};

class PooledClaims final : public DirectClaims {
  std::string conninfo() const override {
    return servers::with_database(servers::find("pgbouncer").conninfo,
                                  SharedDatabase::database->name);
  }
};

template <class Made>
std::unique_ptr<ClaimsUnderTest> make() {
  return std::make_unique<Made>();
}

INSTANTIATE_TEST_SUITE_P(Postgres, ClaimSuite,
                         testing::Values(ClaimCase{"direct", make<DirectClaims>},
                                         ClaimCase{"pooled", make<PooledClaims>}),
                         case_name<ClaimCase>);

}  // namespace
}  // namespace dovetail::conformance
