// The endpoint with hostile and slow clients, over real sockets.
#include "server/endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "host/host.h"
#include "kit/eventually.h"
#include "server/test_malformed.h"

namespace dovetail::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kPatience = seconds(60);

// A client that sends exactly the given bytes.
class Client {
 public:
  explicit Client(std::uint16_t port, const char* from = "127.0.0.1", int receive_bytes = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes > 0)
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, from, &address.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    address.sin_port = htons(port);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(fd_); }

  bool say(std::string_view bytes) const {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Everything until the other side closes.
  std::string hear_all() const {
    std::string heard;
    while (hear_some(heard, kPatience)) {
    }
    return heard;
  }
  std::string hear_until(std::string_view end) const {
    std::string heard;
    while (heard.find(end) == std::string::npos && hear_some(heard, kPatience)) {
    }
    return heard;
  }
  bool is_closed(std::chrono::milliseconds within) const {
    std::string heard;
    const auto end = SteadyClock::now() + within;
    while (SteadyClock::now() < end)
      if (!hear_some(heard, within)) return !timed_out_;
    return false;
  }

 private:
  // False: closed, or nothing came in time.
  bool hear_some(std::string& heard, std::chrono::milliseconds within) const {
    pollfd waiting{fd_, POLLIN, 0};
    timed_out_ = poll(&waiting, 1, static_cast<int>(within.count())) <= 0;
    if (timed_out_) return false;
    char bytes[4096];
    const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    heard.append(bytes, static_cast<std::size_t>(got));
    return true;
  }
  int fd_;
  mutable bool timed_out_ = false;
};

constexpr std::string_view kGood = "GET /quick HTTP/1.1\r\nHost: x\r\n\r\n";

// "/quick" is answered at once, "/large" with much text, "/held" when released.
class EndpointTest : public testing::Test, public RequestHandler {
 protected:
  void listen(EndpointOptions options) {
    endpoint_ = std::make_unique<Endpoint>(std::move(options), system_clock(), *this);
    const Status listening = endpoint_->listen();
    ASSERT_TRUE(listening) << listening.error().text;
  }
  void TearDown() override {
    let_go();
    endpoint_.reset();
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    for (Request* const request : std::exchange(held_, {}))
      endpoint_->answer(*request, Reply{200, "held"});
  }
  std::optional<Reply> begin(const Request&) override { return std::nullopt; }
  std::optional<Reply> take(Request& request) override {
    ++taken_;
    if (request.target == "/held") {
      const std::lock_guard lock(mutex_);
      held_.push_back(&request);
      return std::nullopt;
    }
    Reply reply{200};
    reply.body = request.target == "/large" ? std::string(32 << 20, 'x') : "quick";
    return reply;
  }
  bool is_served(const char* from = "127.0.0.1") const {
    const Client client(endpoint_->port(), from);
    return client.say(kGood) && client.hear_until("quick").ends_with("quick");
  }

  std::atomic<int> taken_{0};
  std::mutex mutex_;
  std::vector<Request*> held_;
  std::unique_ptr<Endpoint> endpoint_;
};

TEST_F(EndpointTest, MalformedAndAmbiguousRequestsAreRefusedAndTheirConnectionsClosed) {
  listen({});
  for (const Malformed& one : malformed_requests()) {
    SCOPED_TRACE(one.name);
    const Client client(endpoint_->port());
    // It is followed by what could pass for another request.
    client.say(one.bytes + std::string(kGood));
    const std::string heard = client.hear_all();
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 " + std::to_string(one.status) + " ")) << heard;
    EXPECT_NE(heard.find("Connection: close"), std::string::npos) << heard;
    EXPECT_EQ(heard.find("HTTP/1.1 200"), std::string::npos) << "one answer: " << heard;
  }
  EXPECT_EQ(taken_, 0);
  EXPECT_TRUE(is_served());
}

TEST_F(EndpointTest, AHeadThatDripsIsGivenUpAfterItsTime) {
  EndpointOptions options;
  options.head_timeout = milliseconds(300);
  listen(options);
  const Client silent(endpoint_->port());
  const Client client(endpoint_->port());
  client.say("GET / HTTP/1.1\r\nHost: x\r\n");
  std::atomic<bool> done{false};
  // Never silent for as long as any time limit.
  std::thread dripping([&] {
    while (!done && client.say("X-A: b\r\n")) std::this_thread::sleep_for(milliseconds(20));
  });
  EXPECT_TRUE(client.hear_all().starts_with("HTTP/1.1 408"));
  done = true;
  dripping.join();
  EXPECT_TRUE(silent.is_closed(kPatience));
  EXPECT_EQ(taken_, 0);
}

TEST_F(EndpointTest, ABodyThatDripsIsGivenUpAndAFastOneIsNot) {
  EndpointOptions options;
  options.receive_timeout = milliseconds(300);
  options.bytes_per_second_min = 1000;
  listen(options);
  const Client slow(endpoint_->port());
  slow.say("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
  std::atomic<bool> done{false};
  std::thread dripping([&] {
    while (!done && slow.say("x")) std::this_thread::sleep_for(milliseconds(20));
  });
  EXPECT_TRUE(slow.hear_all().starts_with("HTTP/1.1 408"));
  done = true;
  dripping.join();
  // Longer than the limit alone, but not too slow for what it has sent.
  const Client steady(endpoint_->port());
  steady.say("POST /steady HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(steady.say(std::string(10'000, 'x')));
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_TRUE(steady.hear_until("quick").starts_with("HTTP/1.1 200"));
}

TEST_F(EndpointTest, WhoDoesNotTakeItsAnswerLosesIt) {
  EndpointOptions options;
  options.receive_timeout = milliseconds(300);
  options.bytes_per_second_min = 64 << 20;  // bytes in the system's buffers count as read
  listen(options);
  const Client reader(endpoint_->port(), "127.0.0.1", 4096);
  reader.say("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return taken_ == 1; }));
  // Reads nothing until the endpoint has given up; then the rest is missing.
  std::this_thread::sleep_for(seconds(1));
  EXPECT_LT(reader.hear_all().size(), std::size_t{32} << 20);
  EXPECT_TRUE(is_served());
}

TEST_F(EndpointTest, AConnectionThatIsKeptAndIdleEndsAfterItsTime) {
  EndpointOptions options;
  options.receive_timeout = milliseconds(200);
  listen(options);
  const Client client(endpoint_->port());
  for (int i = 0; i < 3; ++i) {
    client.say(kGood);
    ASSERT_TRUE(client.hear_until("quick").ends_with("quick"));
  }
  EXPECT_TRUE(client.is_closed(kPatience));
}

TEST_F(EndpointTest, ManySlowClientsDoNotShutOthersOut) {
  EndpointOptions options;
  options.waiting_max = 50;
  listen(options);
  // More half heads than places, from one client and then from many.
  std::list<Client> slow;
  for (int i = 0; i < 200; ++i) slow.emplace_back(endpoint_->port()).say("GET / HTTP/1.1\r\n");
  EXPECT_TRUE(is_served("127.0.0.2")) << "another client";
  EXPECT_TRUE(is_served("127.0.0.1")) << "the same client";
  for (int i = 0; i < 200; ++i) {
    const std::string from = "127.0.1." + std::to_string(i + 1);
    slow.emplace_back(endpoint_->port(), from.c_str()).say("GET / HTTP/1.1\r\n");
  }
  EXPECT_TRUE(is_served("127.0.0.2")) << "yet another among many";
}

TEST_F(EndpointTest, OneClientWithManyRequestsLeavesRoomForOthers) {
  EndpointOptions options;
  options.waiting_max = 20;
  options.connections_per_client_max = 10;
  listen(options);
  std::list<Client> greedy;
  for (int i = 0; i < 10; ++i)
    greedy.emplace_back(endpoint_->port()).say("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return taken_ == 10; }));
  const Client one_more(endpoint_->port());
  EXPECT_TRUE(one_more.is_closed(kPatience)) << "its share is used up by whole requests";
  EXPECT_TRUE(is_served("127.0.0.2"));
  let_go();
  for (const Client& client : greedy)
    EXPECT_TRUE(client.hear_until("held\n").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(is_served()) << "an idle connection makes room for a new one of its client";
}

TEST_F(EndpointTest, AProxyThatIsTrustedHasNoShare) {
  EndpointOptions options;
  options.connections_per_client_max = 2;
  options.trusted_proxies = {*AddressRange::parse("127.0.0.1")};
  listen(options);
  std::list<Client> clients;
  for (int i = 0; i < 10; ++i)
    clients.emplace_back(endpoint_->port()).say("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return taken_ == 10; }));
}

TEST_F(EndpointTest, ClientsThatGoAwayInTheMiddleLeaveNothing) {
  listen({});
  {
    const Client held(endpoint_->port());
    held.say("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(eventually([&] { return taken_ == 1; }));
    const Client body(endpoint_->port());
    body.say("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    const Client head(endpoint_->port());
    head.say("GET /x");
  }
  let_go();
  EXPECT_TRUE(is_served());
}

TEST_F(EndpointTest, AClientThatSaysAllAndClosesItsSideIsAnswered) {
  listen({});
  const Client client(endpoint_->port());
  client.say(std::string(kGood) + "GET /quick HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string heard = client.hear_all();
  EXPECT_NE(heard.find("HTTP/1.1 200", 1), std::string::npos) << heard;
}

// An answer from another thread wakes the loop, once.
TEST_F(EndpointTest, AfterAnAnswerFromAnotherThreadItSleepsAgain) {
  listen({});
  const Client client(endpoint_->port());
  client.say("GET /held HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return taken_ == 1; }));
  let_go();
  EXPECT_TRUE(client.hear_all().starts_with("HTTP/1.1 200"));
  const auto of_process = [] {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  };
  const auto before = of_process();
  std::this_thread::sleep_for(seconds(1));
  EXPECT_LT(of_process() - before, milliseconds(40)) << "nobody asks, and it is busy";
}

}  // namespace
}  // namespace dovetail::http
