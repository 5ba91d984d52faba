// The inbox in PostgreSQL passes the inbox suite on a real server, directly and through a pooler in
// transaction mode.
#include <libpq-fe.h>

#include "conformance/inbox_suite.h"
#include "postgres/inbox/inbox_store.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::conformance {
namespace {

using postgres::Connection;
using postgres::Invocation;
using postgres::TestDatabase;

enum class Path { direct, pooled };

// One database for all tests, emptied for each: making one takes most of a second.
std::unique_ptr<TestDatabase>& shared_database() {
  static std::unique_ptr<TestDatabase> database;
  return database;
}

class DropsIt final : public testing::Environment {
 public:
  void TearDown() override { shared_database().reset(); }
};
const testing::Environment* const kDropsIt = testing::AddGlobalTestEnvironment(new DropsIt);

template <Path kPath>
class PostgresInboxes final : public InboxUnderTest {
 public:
  PostgresInboxes() {
    const bool is_new = shared_database() == nullptr;
    if (is_new) shared_database() = std::make_unique<TestDatabase>();
    connection_ = shared_database()->connect();
    if (is_new) {
      EXPECT_TRUE(create_schema(connection_));
    }
    must(connection_,
         "TRUNCATE dovetail.inbox, dovetail.attempt, dovetail.consumer_session, dovetail.consumer, "
         "dovetail.unapplied; "
         "DROP TABLE IF EXISTS effect; "
         "CREATE TABLE effect (n bigint GENERATED ALWAYS AS IDENTITY, id uuid)");
  }
  std::unique_ptr<InboxStore> make(const std::string& consumer, std::uint32_t lane,
                                   InboxHandler handler) override {
    postgres::InboxStoreOptions options;
    options.conninfo =
        kPath == Path::direct
            ? shared_database()->conninfo
            : servers::with_database(servers::find("pgbouncer").conninfo, shared_database()->name);
    options.consumer = consumer;
    options.lane = lane;
    options.handlers.push_back(
        postgres::cpp_handler(consumer, {}, [handler](Invocation& invocation, const Event& event) {
          const auto run = [&invocation](const char* sql) {
            const Result<pg_conn*> own = invocation.connection();
            if (own) PQclear(PQexec(*own, sql));
          };
          InboxTransaction transaction;
          transaction.effect = [&invocation](const Event& of) {
            return invocation.queue("INSERT INTO effect (id) VALUES ($1)", {of.id});
          };
          transaction.commit = [run] { (run("COMMIT"), run("BEGIN")); };
          transaction.roll_back = [run] { (run("ROLLBACK"), run("BEGIN")); };
          return handler(transaction, event);
        }));
    return std::make_unique<postgres::PostgresInboxStore>(std::move(options));
  }
  std::vector<EventId> effects() override {
    const Result<postgres::Rows> rows = connection_.query("SELECT id FROM effect ORDER BY n");
    EXPECT_TRUE(rows);
    std::vector<EventId> ids;
    for (std::size_t row = 0; rows && row < rows->size(); ++row) ids.push_back(rows->uuid(row, 0));
    return ids;
  }
  bool forget_before(WallTime time) override {
    EXPECT_TRUE(connection_.query("UPDATE dovetail.consumer SET forgotten_until = $1",
                                  postgres::Params().timestamptz(time)));
    return true;
  }

 private:
  Connection connection_;
};

template <Path kPath>
std::unique_ptr<InboxUnderTest> make() {
  return std::make_unique<PostgresInboxes<kPath>>();
}

INSTANTIATE_TEST_SUITE_P(Postgres, InboxSuite,
                         testing::Values(InboxCase{"direct", make<Path::direct>},
                                         InboxCase{"pooled", make<Path::pooled>}),
                         case_name<InboxCase>);

}  // namespace
}  // namespace dovetail::conformance
