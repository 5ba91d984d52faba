#include "postgres/wal_stream.h"

#include "postgres/test_wal.h"

namespace dovetail::postgres {
namespace {

class WalStreamTest : public ::testing::Test {
 protected:
  OutboxDatabase database;
  Connection connection = database.connect();
};

TEST_F(WalStreamTest, BringsEveryEventInTheOrderOfCommits) {
  TestStream test(database.conninfo);
  for (int i = 0; i < 100; ++i) publish(connection, std::to_string(i), "{}");
  ASSERT_TRUE(test.read_until(100));
  ASSERT_EQ(test.keys.size(), 100U);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(test.keys[i], std::to_string(i));
}

}  // namespace
}  // namespace dovetail::postgres
