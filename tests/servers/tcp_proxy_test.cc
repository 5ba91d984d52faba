#include "servers/tcp_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace dovetail::servers {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

sockaddr_in address_of(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A connection, from either side.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { end(); }

  static Socket to(int port) {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = address_of(port);
    if (connect(made.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      made.end();
    return made;
  }
  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void say(const std::string& text) {
    ASSERT_GT(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), 0);
  }
  void say_no_more() { shutdown(fd_, SHUT_WR); }
  void end() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  // `count` bytes, or fewer plus how it ended: "|" closed, "!" reset, "?" not at all.
  std::string hear(std::size_t count, std::chrono::milliseconds limit = 30s) {
    std::string heard;
    while (heard.size() < count) {
      pollfd one{fd_, POLLIN, 0};
      if (poll(&one, 1, static_cast<int>(limit.count())) == 0) return heard + "?";
      std::string some(count - heard.size(), '\0');
      const ssize_t got = recv(fd_, some.data(), some.size(), 0);
      if (got <= 0) return heard + (got == 0 ? "|" : "!");
      heard.append(some, 0, static_cast<std::size_t>(got));
    }
    return heard;
  }

 private:
  int fd_;
};

class Proxied : public testing::Test {
 protected:
  static Socket listening() {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = address_of(0);
    EXPECT_EQ(bind(made.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(made.fd(), 16), 0);
    return made;
  }
  int server_port() const {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(address.sin_port);
  }
  // Both ends of a connection through the proxy.
  std::pair<Socket, Socket> connection() {
    Socket client = Socket::to(proxy_.port());
    EXPECT_TRUE(client.connected());
    return {std::move(client), Socket(accept(listener_.fd(), nullptr, nullptr))};
  }

  Socket listener_ = listening();
  TcpProxy proxy_{server_port()};
};

TEST_F(Proxied, BytesPassBothWaysAndAreCounted) {
  auto [client, server] = connection();
  client.say("request");
  EXPECT_EQ(server.hear(7), "request");
  server.say("the answer");
  EXPECT_EQ(client.hear(10), "the answer");
  const TcpProxy::Counters counters = proxy_.counters();
  EXPECT_EQ(counters.connections, 1U);
  EXPECT_EQ(counters.open, 1U);
  EXPECT_EQ(counters.requests, 7U);
  EXPECT_EQ(counters.answers, 10U);
}

TEST_F(Proxied, MuchPassesWholeThoughNobodyReadsAtFirst) {
  auto [client, server] = connection();
  std::string much(20 << 20, '\0');
  for (std::size_t i = 0; i < much.size(); ++i) much[i] = static_cast<char>(i * 31 % 251);
  std::thread writer([&, &to = client] { to.say(much); });
  EXPECT_TRUE(server.hear(much.size()) == much);
  writer.join();
}

TEST_F(Proxied, AnEndPassesAndTheOtherDirectionGoesOn) {
  auto [client, server] = connection();
  client.say("last");
  client.say_no_more();
  EXPECT_EQ(server.hear(100), "last|");
  server.say("still");
  EXPECT_EQ(client.hear(5), "still");
  server.end();
  EXPECT_EQ(client.hear(1), "|");
}

TEST_F(Proxied, CutResetsAllConnectionsAndServesTheNext) {
  auto [client, server] = connection();
  auto [other, other_server] = connection();
  proxy_.cut();
  for (Socket* one : {&client, &server, &other, &other_server}) EXPECT_EQ(one->hear(1), "!");
  auto [next, next_server] = connection();
  next.say("hello");
  EXPECT_EQ(next_server.hear(5), "hello");
}

TEST_F(Proxied, RefuseRefusesNewConnectionsAndLeavesTheOldAlone) {
  auto [client, server] = connection();
  proxy_.refuse(true);
  EXPECT_FALSE(Socket::to(proxy_.port()).connected());
  EXPECT_EQ(errno, ECONNREFUSED);
  client.say("still here");
  EXPECT_EQ(server.hear(10), "still here");
  proxy_.refuse(false);
  EXPECT_TRUE(connection().first.connected());
}

TEST_F(Proxied, AStalledLineKeepsConnectionsAndDeliversLater) {
  auto [client, server] = connection();
  proxy_.stall();
  client.say("late");
  server.say("late");
  Socket next = Socket::to(proxy_.port());
  EXPECT_TRUE(next.connected());
  EXPECT_EQ(server.hear(4, 200ms), "?");
  EXPECT_EQ(client.hear(4, 10ms), "?");
  proxy_.flow();
  EXPECT_EQ(server.hear(4), "late");
  EXPECT_EQ(client.hear(4), "late");
}

TEST_F(Proxied, LostAnswersMeanThatRequestsArriveAndTheConnectionIsCut) {
  auto [client, server] = connection();
  proxy_.lose_answers(3);
  client.say("one");
  EXPECT_EQ(server.hear(3), "one");
  server.say("123456");
  EXPECT_EQ(client.hear(3), "123");
  client.say("two");
  EXPECT_EQ(server.hear(3), "two");
  server.say("789");
  EXPECT_EQ(client.hear(1), "!");
  EXPECT_EQ(server.hear(1), "|");
  EXPECT_EQ(proxy_.counters().losses, 1U);
  EXPECT_EQ(proxy_.counters().swallowed, 6U);
}

TEST_F(Proxied, AnswersAreLostOnceAndOnConnectionsMadeLaterToo) {
  proxy_.lose_answers(0);
  auto [client, server] = connection();
  server.say("1");
  EXPECT_EQ(client.hear(1), "!");
  auto [next, next_server] = connection();
  next_server.say("2");
  EXPECT_EQ(next.hear(1), "2");
}

TEST_F(Proxied, ASlowLineTakesItsTime) {
  auto [client, server] = connection();
  proxy_.slow(100'000);
  const Clock::time_point start = Clock::now();
  client.say(std::string(50'000, 'x'));
  EXPECT_EQ(server.hear(50'000).size(), 50'000U);
  EXPECT_GT(Clock::now() - start, 350ms);
  proxy_.slow(0);
  server.say(std::string(1'000'000, 'x'));
  EXPECT_EQ(client.hear(1'000'000).size(), 1'000'000U);
}

TEST_F(Proxied, AServerThatIsGoneResetsItsClients) {
  auto [client, server] = connection();
  server.end();
  EXPECT_EQ(client.hear(1), "|");
  listener_.end();
  Socket next = Socket::to(proxy_.port());
  EXPECT_EQ(next.hear(1), "!");
}

TEST(TcpProxy, TakesTheGivenPort) {
  int port = 0;
  {
    const TcpProxy first(1);
    port = first.port();
  }
  const TcpProxy second(1, port);
  EXPECT_EQ(second.port(), port);
}

}  // namespace
}  // namespace dovetail::servers
