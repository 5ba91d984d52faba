// What tests need of a RabbitMQ server. It uses the management API and rabbitmqctl, so that tests
// do not look through the adapter.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "host/host.h"
#include "kit/eventually.h"
#include "rabbitmq/management.h"
#include "rabbitmq/options.h"
#include "servers/servers.h"

namespace dovetail::rabbitmq {

inline std::string from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    group = group << 6 | static_cast<std::uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> bits & 0xff);
  }
  return bytes;
}

// A virtual host for one test.
class TestBroker {
 public:
  explicit TestBroker(servers::Server server = servers::find("rabbitmq"))
      : server_(std::move(server)) {
    static std::atomic<int> count{0};
    options_.port = static_cast<std::uint16_t>(server_.port());
    options_.virtual_host = "t" + std::to_string(getpid()) + "_" + std::to_string(++count);
    options_.management_url = "http://127.0.0.1:" + server_.field("management_port");
    put("vhosts/" + host(), "{}");
    allow("guest", ".*");
  }
  TestBroker(const TestBroker&) = delete;
  TestBroker& operator=(const TestBroker&) = delete;
  ~TestBroker() { (void)request(options_, "DELETE", "vhosts/" + host()); }

  const Options& options() const { return options_; }
  const servers::Server& server() const { return server_; }
  std::string host() const { return percent_encoded(options_.virtual_host); }

  void put(const std::string& path, const std::string& body) const {
    const auto done = request(options_, "PUT", path, body);
    ASSERT_TRUE(done) << done.error().text;
    ASSERT_LT(done->status, 300) << path << ": " << done->body;
  }
  void remove(const std::string& path) const {
    const auto done = request(options_, "DELETE", path);
    ASSERT_TRUE(done && done->status < 300) << path;
  }
  void allow(const std::string& user, const std::string& write) const {
    put("permissions/" + host() + "/" + user,
        R"({"configure":".*","write":")" + write + R"(","read":".*"})");
  }
  void make_queue(const std::string& name, const std::string& arguments = "{}",
                  const std::string& more = R"("durable":true)") const {
    put("queues/" + host() + "/" + percent_encoded(name),
        "{" + more + R"(,"arguments":)" + arguments + "}");
  }
  void remove_queue(const std::string& name) const { remove("queues/" + host() + "/" + name); }
  void make_exchange(const std::string& name, const std::string& type = "topic") const {
    put("exchanges/" + host() + "/" + name, R"({"type":")" + type + R"(","durable":true})");
  }
  void remove_exchange(const std::string& name) const {
    remove("exchanges/" + host() + "/" + name);
  }
  void bind(const std::string& exchange, const std::string& queue,
            const std::string& routing_key) const {
    const auto done =
        request(options_, "POST", "bindings/" + host() + "/e/" + exchange + "/q/" + queue,
                R"({"routing_key":")" + routing_key + R"(","arguments":{}})");
    ASSERT_TRUE(done && done->status < 300);
  }
  // Publishes like another program; `properties` is a JSON object.
  void publish(const std::string& exchange, const std::string& routing_key,
               const std::string& payload_base64, const std::string& properties) const {
    const auto done =
        request(options_, "POST", "exchanges/" + host() + "/" + exchange + "/publish",
                R"({"routing_key":")" + routing_key + R"(","payload":")" + payload_base64 +
                    R"(","payload_encoding":"base64","properties":)" + properties + "}");
    ASSERT_TRUE(done && done->status == 200) << (done ? done->body : done.error().text);
    ASSERT_NE(done->body.find("true"), std::string::npos) << "no queue took it: " << done->body;
  }
  // The messages of the queue, which stay there; payloads in base64, whole or cut.
  std::vector<Json> messages(const std::string& queue, const std::string& truncate = "") const {
    std::string wish = R"({"count":100000,"ackmode":"ack_requeue_true","encoding":"base64")";
    if (!truncate.empty()) wish += R"(,"truncate":)" + truncate;
    const auto done = request(
        options_, "POST", "queues/" + host() + "/" + percent_encoded(queue) + "/get", wish + "}");
    EXPECT_TRUE(done && done->status == 200) << (done ? done->body : done.error().text);
    if (!done) return {};
    const Json list = Json::keep(done->body);
    EXPECT_TRUE(list.is_there());
    return list.items();
  }
  Json queue(const std::string& name) const {
    return *look_up(options_, "queues/" + host() + "/" + name);
  }

  // rabbitmqctl. False: it failed.
  bool ctl(const std::string& arguments) const {
    return std::system((server_.field("home") + "/rabbitmqctl -q " + arguments + " >/dev/null 2>&1")
                           .c_str()) == 0;
  }

 private:
  servers::Server server_;
  Options options_;
};

}  // namespace dovetail::rabbitmq
