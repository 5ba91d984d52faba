// A fake server, for answers that no real server can be made to give.
#include "redis/connection.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "redis/sink.h"
#include "redis/test_server.h"

namespace dovetail::redis {
namespace {

// Takes one connection; waits for each given word and answers it with the given bytes.
class FakeServer {
 public:
  using Script = std::vector<std::pair<std::string, std::string>>;
  explicit FakeServer(Script script) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, plain, size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, plain, &size), 0);
    options.port = ntohs(address.sin_port);
    thread_ = std::jthread([this, script = std::move(script)] { play(script); });
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  Options options;

 private:
  void play(const Script& script) const {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) return;
    std::string came;
    for (const auto& [word, answer] : script) {
      char bytes[4096];
      while (came.find(word) == std::string::npos) {
        const ssize_t count = recv(connection, bytes, sizeof bytes, 0);
        if (count <= 0) break;
        came.append(bytes, static_cast<std::size_t>(count));
      }
      came.clear();
      EXPECT_EQ(::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(answer.size()));
    }
    close(connection);
  }

  int listener_;
  std::jthread thread_;
};

// What RedisSink asks in open().
const FakeServer::Script kOpening = {{"dovetail:probe", "-ERR The ID must be greater\r\n"},
                                     {"proto-max-bulk-len", "-ERR no\r\n"},
                                     {"MULTI", "+OK\r\n"}};

// The answers to a window of one XADD, and to the MULTI behind it.
std::string window_of(const std::string& answer) {
  return "+QUEUED\r\n*1\r\n" + answer + "+OK\r\n";
}

Result<bool> fate_of_one(FakeServer& server, Outcome& outcome) {
  RedisSink sink(server.options, system_clock());
  const Status opened = sink.open();
  if (!opened) return fail(opened.error());
  TestEvents events;
  const Event* const one = &events.make("orders", "a", "1");
  DOVETAIL_TRY(sink.submit({&one, 1}));
  return sink.collect({&outcome, 1}, std::chrono::seconds(30));
}

TEST(RedisFakeServerTest, AnotherProtocolIsUnavailableInWords) {
  FakeServer server(FakeServer::Script{{"XADD", "HTTP/1.1 400 Bad Request\r\n\r\n"}});
  Outcome outcome;
  const Result<bool> known = fate_of_one(server, outcome);
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, Errc::unavailable);
  EXPECT_NE(known.error().text.find("does not speak the Redis protocol"), std::string::npos)
      << known.error().text;
}

TEST(RedisFakeServerTest, OnlyAnIdConfirmsAnEvent) {
  for (const char* answer : {"+OK\r\n", ":1\r\n", "*0\r\n", "$0\r\n\r\n", "$3\r\n1-x\r\n"}) {
    FakeServer::Script script = kOpening;
    script.emplace_back("EXEC", window_of(answer));
    FakeServer server(script);
    Outcome outcome;
    const Result<bool> known = fate_of_one(server, outcome);
    ASSERT_FALSE(known) << answer;
    EXPECT_EQ(known.error().code, Errc::unavailable);
  }
  FakeServer::Script script = kOpening;
  script.emplace_back("EXEC", window_of("$3\r\n1-1\r\n"));
  FakeServer server(script);
  Outcome outcome;
  const Result<bool> known = fate_of_one(server, outcome);
  ASSERT_TRUE(known) << known.error().text;
  EXPECT_EQ(outcome.fate, Fate::confirmed);
}

TEST(RedisFakeServerTest, AnAnswerToNothingIsUnavailable) {
  FakeServer::Script script = kOpening;
  script.emplace_back("EXEC", window_of("$3\r\n1-1\r\n") + "$3\r\n1-2\r\n");
  FakeServer server(script);
  RedisSink sink(server.options, system_clock());
  ASSERT_TRUE(sink.open());
  TestEvents events;
  const Event* const one = &events.make("orders", "a", "1");
  ASSERT_TRUE(sink.submit({&one, 1}));
  EXPECT_TRUE(eventually([&] {
    Outcome outcome;
    return !sink.collect({&outcome, 1}, std::chrono::milliseconds(100)) || !sink.submit({&one, 1});
  }));
}

TEST(RedisFakeServerTest, AnArgumentThatAnErrorQuotesIsNotRepeated) {
  FakeServer::Script script = kOpening;
  script.emplace_back("EXEC",
                      "-ERR unknown command `XADD`, with args beginning with: `secret`\r\n"
                      "-EXECABORT Transaction discarded because of previous errors.\r\n+OK\r\n");
  FakeServer server(script);
  Outcome outcome;
  const Result<bool> known = fate_of_one(server, outcome);
  ASSERT_TRUE(known) << known.error().text;
  EXPECT_EQ(outcome.fate, Fate::busy);
  EXPECT_EQ(outcome.reason.find("secret"), std::string::npos) << outcome.reason;
}

}  // namespace
}  // namespace dovetail::redis
