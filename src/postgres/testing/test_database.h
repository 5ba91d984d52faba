// A database per test on the real server, and short functions to use
// it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "kit/eventually.h"
#include "kit/results.h"
#include "postgres/connection/connection.h"
#include "postgres/schema/schema.h"
#include "servers/servers.h"

namespace dovetail::postgres {

enum class Tables { none, made };

// It has dovetail's tables, so create_schema() finds nothing to do: it is a copy of a database made
// once per server, which takes a quarter of the time.
class TestDatabase {
 public:
  explicit TestDatabase(const std::string& server = "postgres", Tables tables = Tables::made) {
    static std::atomic<int> count{0};
    name = "test_" + std::to_string(getpid()) + "_" + std::to_string(++count);
    admin_ = servers::find(server).conninfo;
    conninfo = servers::with_database(admin_, name);
    on_server("CREATE DATABASE " + name +
              (tables == Tables::made ? " TEMPLATE " + original() : ""));
  }
  TestDatabase(const TestDatabase&) = delete;
  TestDatabase& operator=(const TestDatabase&) = delete;
  ~TestDatabase() {
    Status dropped = fail(Errc::unavailable, "no server");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(90);
    Result<Connection> admin = Connection::open(admin_);
    while (!dropped && std::chrono::steady_clock::now() < end) {
      if (!admin || !*admin) admin = Connection::open(admin_);
      if (admin) dropped = drop(*admin);
    }
    EXPECT_TRUE(dropped) << dropped.error().text;
  }

  Connection connect(const std::string& user = "") const {
    Result<Connection> connection =
        Connection::open(conninfo + (user.empty() ? "" : " user=" + user));
    EXPECT_TRUE(connection) << (connection ? "" : connection.error().text);
    return connection ? std::move(*connection) : Connection();
  }

  std::string name;
  std::string conninfo;

 private:
  void on_server(const std::string& sql) const {
    Result<Connection> connection = Connection::open(admin_);
    ASSERT_TRUE(connection) << connection.error().text;
    const Status done = connection->execute(sql);
    EXPECT_TRUE(done) << done.error().text;
  }
  // The database to copy, for this version of the tables. The first user makes it, under another
  // name until it is complete.
  std::string original() const {
    static std::mutex mutex;
    static std::set<std::string> known;
    const std::lock_guard lock(mutex);
    const std::string made = "tables_" + std::to_string(std::hash<std::string>{}(schema_sql()));
    if (!known.insert(admin_).second) return made;
    Result<Connection> admin = Connection::open(admin_);
    if (!admin) return made;
    EXPECT_TRUE(admin->query("SELECT pg_advisory_lock(hashtextextended('tables', 0))"));
    const Result<Rows> there =
        admin->query("SELECT count(*) FROM pg_database WHERE datname = $1", Params().text(made));
    if (!there || there->int8(0, 0) == 1) return made;
    on_server("DROP DATABASE IF EXISTS " + made + "_unfinished");
    on_server("CREATE DATABASE " + made + "_unfinished");
    {
      Result<Connection> owner =
          Connection::open(servers::with_database(admin_, made + "_unfinished"));
      const Status done = owner ? create_schema(*owner) : Status(fail(owner.error()));
      EXPECT_TRUE(done) << done.error().text;
    }
    on_server("ALTER DATABASE " + made + "_unfinished RENAME TO " + made);
    return made;
  }
  // A slot blocks the drop of its database. A temporary slot exists until its process notices that
  // its client is gone, and one just asked for may still appear.
  Status drop(Connection& admin) const {
    const std::string ours = " FROM pg_replication_slots WHERE database = '" + name + "'";
    (void)admin.query("SELECT pg_terminate_backend(active_pid)" + ours + " AND active");
    (void)admin.query("SELECT pg_drop_replication_slot(slot_name)" + ours + " AND NOT active");
    const Result<Rows> left = admin.query("SELECT count(*)" + ours);
    if (!left) return fail(left.error());
    if (left->int8(0, 0) == 0) return admin.execute("DROP DATABASE " + name + " WITH (FORCE)");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return fail(Errc::unavailable, "a slot of the database is in use");
  }
  std::string admin_;
};

class EmptyDatabase : public TestDatabase {
 public:
  EmptyDatabase() : TestDatabase("postgres", Tables::none) {}
};

inline void must(Connection& connection, const std::string& sql) {
  const Status done = connection.execute(sql);
  ASSERT_TRUE(done) << sql << ": " << done.error().text;
}
// The first column of the first row; the statement must cast it to text.
inline std::string text(Connection& connection, const std::string& sql) {
  const Result<Rows> rows = connection.query(sql);
  EXPECT_TRUE(rows) << sql << ": " << text_of(rows);
  if (!rows || rows->empty()) return "none";
  return rows->is_null(0, 0) ? "null" : std::string(rows->text(0, 0));
}
inline std::int64_t number(Connection& connection, const std::string& sql) {
  const Result<Rows> rows = connection.query("SELECT (" + sql + ")::bigint");
  EXPECT_TRUE(rows) << sql << ": " << text_of(rows);
  return rows && !rows->empty() && !rows->is_null(0, 0) ? rows->int8(0, 0) : -1;
}

}  // namespace dovetail::postgres
