// What Redis tests share: a database of the server for each test, and commands on it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/event/batch.h"
#include "core/relay/sink.h"
#include "host/host.h"
#include "kit/events.h"
#include "kit/eventually.h"
#include "redis/connection.h"
#include "redis/options.h"
#include "servers/servers.h"

namespace dovetail::redis {

// For this process only, for tests that change or break the server.
inline servers::Started& own_server() {
  static servers::Started started("redis");
  return started;
}

// A second server in a temporary folder.
class SecondServer {
 public:
  const servers::Server& server() const { return started_.server(); }
  int pid() const { return started_.pid(); }

 private:
  struct Folder {
    Folder() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path); }
    std::string path = testing::TempDir() + "dovetail_second_XXXXXX";
  };
  Folder folder_;
  servers::Started started_{"redis", folder_.path};
};

inline Options options_of(const servers::Server& server) {
  Options options;
  options.host = server.field("host");
  options.port = static_cast<std::uint16_t>(server.port());
  options.group = "test";
  options.streams = {"orders"};
  options.consumer = "first";
  return options;
}

// One database per test, so that all tests can share a server.
class TestDatabase {
 public:
  explicit TestDatabase(const servers::Server& server) : options_(options_of(server)) {
    const auto number = static_cast<std::uint32_t>(run({"INCR", "databases"}).value().integer());
    connection_.close();
    options_.database = number;
  }

  // The same database on another connection.
  TestDatabase(const TestDatabase& other) : options_(other.options_) {}
  TestDatabase& operator=(const TestDatabase&) = delete;

  // The next command reconnects, for example after a restart of the server.
  void disconnect() { connection_.close(); }

  const Options& options() const { return options_; }

  // Returns error replies. If the server cannot be reached, the test fails.
  Reply run(std::initializer_list<std::string_view> arguments) {
    if (!connection_.is_open()) {
      Result<Connection> opened = Connection::open(options_, system_clock());
      EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
      if (!opened) return {};
      connection_ = std::move(*opened);
    }
    connection_.command(arguments);
    Result<Reply> reply = connection_.take_within(std::chrono::seconds(30));
    EXPECT_TRUE(reply) << (reply ? "" : reply.error().text);
    return reply ? std::move(*reply) : Reply();
  }

 private:
  Options options_;
  Connection connection_;
};

// Changes a server setting, or two related ones, until the end of the scope.
class Setting {
 public:
  Setting(TestDatabase& database, const std::string& name, std::string_view value)
      : database_(database), before_{name, value_of(name)} {
    set({name, std::string(value)});
  }
  Setting(TestDatabase& database, const std::string& name, std::string_view value,
          const std::string& other, std::string_view other_value)
      : database_(database), before_{name, value_of(name), other, value_of(other)} {
    set({name, std::string(value), other, std::string(other_value)});
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { set(before_); }

 private:
  std::string value_of(const std::string& name) {
    return std::string(database_.run({"CONFIG", "GET", name}).value().at(1).text());
  }
  void set(const std::vector<std::string>& words) {
    const Reply done =
        words.size() == 2
            ? database_.run({"CONFIG", "SET", words[0], words[1]})
            : database_.run({"CONFIG", "SET", words[0], words[1], words[2], words[3]});
    EXPECT_EQ(done.value().text(), "OK") << words[0];
  }

  TestDatabase& database_;
  std::vector<std::string> before_;
};

inline std::vector<Outcome> collect(Sink& sink, std::size_t count) {
  std::vector<Outcome> outcomes(count);
  const Result<bool> known = sink.collect(outcomes, std::chrono::seconds(30));
  EXPECT_TRUE(known) << (known ? "" : known.error().text);
  EXPECT_TRUE(!known || *known) << "no outcome within the limit";
  return outcomes;
}

inline std::vector<Outcome> send(Sink& sink, const std::vector<const Event*>& events) {
  const Status submitted = sink.submit(events);
  EXPECT_TRUE(submitted) << (submitted ? "" : submitted.error().text);
  return submitted ? collect(sink, events.size()) : std::vector<Outcome>(events.size());
}

}  // namespace dovetail::redis
