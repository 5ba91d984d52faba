// What NATS tests share: the server's address, and their own streams on it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "host/host.h"
#include "nats/connection.h"
#include "nats/jetstream.h"
#include "nats/options.h"
#include "servers/servers.h"

namespace dovetail::nats {

inline ConnectionOptions connection_to(const servers::Server& server) {
  ConnectionOptions options;
  options.servers = {{server.field("host"), static_cast<std::uint16_t>(server.port())}};
  options.user = server.field("user");
  options.password = server.field("password");
  return options;
}

inline ConnectionOptions connection_to(const std::string& name = "nats") {
  return connection_to(servers::find(name));
}

// A unique name on the shared server.
inline std::string own_name(const std::string& prefix) {
  static std::atomic<int> made{0};
  return prefix + std::to_string(getpid()) + "_" + std::to_string(++made);
}

// A second connection of the test, to create and inspect streams.
class Operator {
 public:
  explicit Operator(const ConnectionOptions& options = connection_to()) { connect(options); }
  void connect(const ConnectionOptions& options) {
    Result<Connection> opened = Connection::open(options);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
    if (opened) connection_ = std::move(*opened);
  }
  // `more`: further JSON, such as `,"max_msgs":1`.
  void make_stream(const std::string& name, const std::string& subject,
                   const std::string& more = {}) {
    ask("STREAM.CREATE." + name, "{\"name\":\"" + name + "\",\"subjects\":[\"" + subject +
                                     "\"],\"storage\":\"file\"" + more + "}");
  }
  void drop_stream(const std::string& name) { jetstream_.ask("STREAM.DELETE." + name); }
  Answer ask(const std::string& what, const std::string& body = {}) {
    const Result<Answer> answer = jetstream_.require(what, body);
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().text);
    return answer.value_or(Answer{});
  }
  std::int64_t messages(const std::string& stream) {
    return ask("STREAM.INFO." + stream).json().get("state").get("messages").number_or(-1);
  }
  Connection& connection() { return connection_; }

  struct Stored {
    std::string subject{};
    std::string headers{};  // the whole block
    std::string payload{};
  };
  // All messages of the stream, in order, without leaving a consumer behind.
  std::vector<Stored> stored(const std::string& stream) {
    const Answer made =
        ask("CONSUMER.CREATE." + stream,
            "{\"stream_name\":\"" + stream +
                "\",\"config\":{\"ack_policy\":\"none\",\"deliver_policy\":\"all\"}}");
    const std::string consumer = made.json().get("name").text();
    const std::string inbox = connection_.inbox() + "all";
    connection_.publish(jetstream_.prefix() + "CONSUMER.MSG.NEXT." + stream + "." + consumer, inbox,
                        R"({"batch":1000000,"no_wait":true})");
    std::vector<Stored> all;
    bool ended = false;
    const TimePoint end = system_clock().now() + std::chrono::seconds(30);
    while (!ended && system_clock().now() < end) {
      const Status pumped = connection_.pump(std::chrono::seconds(1), [&](const Frame& frame) {
        HeaderBlock block;
        parse_headers(frame.headers, block);
        if (block.status != 0)
          ended = true;
        else
          all.push_back(
              {std::string(frame.subject), std::string(frame.headers), std::string(frame.payload)});
      });
      EXPECT_TRUE(pumped);
      if (!pumped) break;
    }
    EXPECT_TRUE(ended);
    ask("CONSUMER.DELETE." + stream + "." + consumer);
    return all;
  }

 private:
  Connection connection_;
  JetStream jetstream_{connection_, "", std::chrono::seconds(30)};
};

}  // namespace dovetail::nats
