// A login for each role of dovetail on the real server, and objects that they may try to use.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {

constexpr const char* kQueued = "01890000-0000-7000-8000-000000000001";  // for stock and for mail
constexpr const char* kParked = "01890000-0000-7000-8000-000000000002";  // of the relay "orders"

// Roles belong to the cluster, so logins have the database's name in theirs. "worker" may use the
// consumer stock, not mail; "nobody" has no role. An operator paused the relay "held"; the relays
// "held" and "bound" have a target.
class PostgresRoles : public testing::Test {
 protected:
  static constexpr const char* kLogins[] = {"app", "worker", "relay", "operator", "nobody"};

  static void SetUpTestSuite() {
    shared_ = std::make_unique<TestDatabase>();
    Connection owner = shared_->connect();
    const Status made = create_roles(owner);
    ASSERT_TRUE(made) << text_of(made);
    for (const std::string name : kLogins) {
      must(owner, "CREATE ROLE " + login(name) + " LOGIN");
      if (name != "nobody") must(owner, "GRANT dovetail_" + name + " TO " + login(name));
    }
    must(owner, "SELECT dovetail.grant_worker('" + login("worker") + "', 'stock')");
    must(owner, "SELECT dovetail.publish('order', '1', 'placed', '{}')");
    for (const std::string consumer : {"stock", "mail"}) fill(owner, consumer);
    park(owner);
    must(owner,
         "INSERT INTO dovetail.relay_lane (relay, lane, lanes, hold, target) VALUES ('held', 0, 1, "
         "'paused', 'here'), ('bound', 0, 1, '', 'here')");
  }
  static void TearDownTestSuite() {
    {
      Connection owner = shared_->connect();
      for (const char* name : kLogins)
        must(owner, "DROP OWNED BY " + login(name) + "; DROP ROLE " + login(name));
    }
    shared_.reset();
  }

  PostgresRoles() : owner_(shared_->connect()) {}

  static std::string login(const std::string& name) { return shared_->name + "_" + name; }
  static Connection as(const std::string& name) { return shared_->connect(login(name)); }

  static void fill(Connection& owner, const std::string& consumer) {
    must(owner, "SELECT dovetail.enqueue('" + consumer + "', ARRAY['" + kQueued +
                    "']::uuid[], '{t}', '{order}', '{1}', '{placed}', '{text/plain}', '{\"\"}', "
                    "'{\"\\\\x00\"}', '{0}', ARRAY[now()])");
  }
  static void park(Connection& owner) {
    must(owner,
         "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, "
         "type, content_type, headers, payload, aggregate_version, created_at, state, at_head, "
         "attempts, reason, retry_at) VALUES ('orders', '" +
             std::string(kParked) +
             "', 1, '', 'order', 'a', 'placed', 'text/plain', '', 'x', 0, now(), 'parked', true, "
             "5, 'refused', now())");
  }

  // The SQLSTATE of the statement's error, or "ok". Changes nothing.
  static std::string sqlstate(Connection& connection, const std::string& sql) {
    must(connection, "BEGIN");
    const Status done = connection.execute(sql);
    must(connection, "ROLLBACK");
    if (done) return "ok";
    const std::size_t open = done.error().text.find(" (");
    return open == std::string::npos ? done.error().text : done.error().text.substr(open + 2, 5);
  }

  static inline std::unique_ptr<TestDatabase> shared_;
  Connection owner_;
};

}  // namespace dovetail::postgres
