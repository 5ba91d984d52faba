// A SQLite file for each test, and short functions to use it.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/event/batch.h"
#include "dovetail/sqlite.h"
#include "host/host.h"
#include "kit/eventually.h"
#include "kit/results.h"
#include "sqlite/connection/database.h"
#include "sqlite/operate/admin.h"

namespace dovetail::sqlite {

class TestFile {
 public:
  TestFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dovetail_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path = directory_ + "/service.db";
    const Status created = create_store(path);
    EXPECT_TRUE(created) << created.error().text;
  }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;
  ~TestFile() { std::filesystem::remove_all(directory_); }

  const std::string& directory() const { return directory_; }
  std::string path;

 private:
  std::string directory_;
};

// The application's own connection.
class Application {
 public:
  explicit Application(const std::string& path,
                       int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI) {
    EXPECT_EQ(sqlite3_open_v2(path.c_str(), &connection, flags, nullptr), SQLITE_OK);
    // Consumers and relays of the test also write to the file.
    sqlite3_busy_timeout(connection, 5'000);
  }
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;
  ~Application() { sqlite3_close(connection); }

  int run(const std::string& sql) {
    return sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr);
  }
  std::string text(const std::string& sql) {
    Result<Statement> statement = Statement::prepare(connection, sql);
    EXPECT_TRUE(statement) << (statement ? "" : statement.error().text);
    if (!statement) return "error";
    const Result<bool> row = statement->step();
    EXPECT_TRUE(row) << (row ? "" : row.error().text);
    return row && *row ? std::string(statement->bytes(0)) : "none";
  }
  std::int64_t number(const std::string& sql) { return std::stoll(text(sql)); }

  EventId publish_one(std::string_view key, std::string_view payload = "{}",
                      std::string_view topic = "") {
    EXPECT_EQ(run("BEGIN IMMEDIATE"), SQLITE_OK) << sqlite3_errmsg(connection);
    NewEvent event;
    event.aggregate_type = "order";
    event.aggregate_id = key;
    event.type = "placed";
    event.payload = payload;
    event.topic = topic;
    const Result<EventId> id = publish(connection, event);
    EXPECT_TRUE(id) << (id ? "" : id.error().text);
    EXPECT_EQ(run("COMMIT"), SQLITE_OK) << sqlite3_errmsg(connection);
    return id ? *id : EventId{};
  }

  sqlite3* connection = nullptr;
};

inline Event make_event(std::string_view key, std::int64_t position, std::string_view topic = "") {
  Event event;
  event.id = new_event_id();
  event.position = position;
  event.topic = topic;
  event.aggregate_type = "order";
  event.aggregate_id = key;
  event.key_hash = key_hash(event.aggregate_type, event.aggregate_id);
  event.type = "placed";
  event.content_type = "application/json";
  event.payload = "{}";
  return event;
}

}  // namespace dovetail::sqlite
