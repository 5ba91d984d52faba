// The HTTP sink passes the sink suite against a real server, and the HTTP source passes the source
// suite with senders that repeat until they get 2xx.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "conformance/brokers/http_stored.h"
#include "conformance/limits_suite.h"
#include "conformance/sink_suite.h"
#include "conformance/source_suite.h"
#include "host/host.h"
#include "servers/servers.h"
#include "webhook/sink.h"
#include "webhook/source.h"

namespace dovetail::conformance {
namespace {

// One server for all, which a test may restart: it keeps what it has recorded.
servers::Started& own_server() {
  static servers::Started own("http", testing::TempDir() + "http_" + new_event_id().to_string());
  return own;
}

class HttpSinkStore : public SinkUnderTest {
 public:
  SinkAbilities abilities() const override { return {true, false, true, true}; }
  std::unique_ptr<Sink> make() override {
    http::SinkOptions options;
    options.url = "http://127.0.0.1:" + own_server().server().field("port") + path_ +
                  "/{topic}?status={header.status}";
    options.allow_private = true;
    options.payload_bytes_max = kPayloadBytesMax;
    return std::make_unique<http::HttpSink>(options, system_clock());
  }
  std::size_t payload_bytes_max(const Event&) override { return kPayloadBytesMax; }
  std::vector<StoredEvent> stored() override { return stored_at(own_server().server(), path_); }
  void make_poison(Event& event) override { event.headers = R"({"status":"422"})"; }
  void restart_server() override { ASSERT_TRUE(own_server().crash()); }

 private:
  static constexpr std::size_t kPayloadBytesMax = 1'100'000;
  const std::string path_ = "/conformance_" + new_event_id().to_string();
};

// An event behind a refused one waits until that is collected. Here each must be tried, so none has
// a key to wait for.
class Unordered final : public Sink {
 public:
  explicit Unordered(std::unique_ptr<Sink> sink) : sink_(std::move(sink)) {}
  Status open() override { return sink_->open(); }
  Status submit(Events events) override {
    std::vector<const Event*> pointers;
    for (const Event* const event : events) {
      events_.push_back(*event);
      events_.back().key_hash = 0;
      pointers.push_back(&events_.back());
    }
    return sink_->submit(pointers);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    return sink_->collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return false; }

 private:
  std::deque<Event> events_;
  std::unique_ptr<Sink> sink_;
};

class HttpLimits final : public HttpSinkStore {
 public:
  std::unique_ptr<Sink> make() override {
    return std::make_unique<Unordered>(HttpSinkStore::make());
  }
};

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

// Sends like a careful sender: in order, and again until it gets 2xx. It uses the socket itself,
// with one connection per request.
class Sender {
 public:
  explicit Sender(int port) : port_(port), thread_([this](std::stop_token stop) { run(stop); }) {}
  ~Sender() {
    thread_.request_stop();
    thread_.join();
    for (const Post& post : posts_)
      if (post.fd >= 0) close(post.fd);
  }
  void add(std::string request) {
    const std::lock_guard lock(mutex_);
    posts_.push_back({std::move(request)});
  }
  // Posts in flight or done.
  bool all_are_sent() {
    const std::lock_guard lock(mutex_);
    for (const Post& post : posts_)
      if (!post.arrived) return false;
    return true;
  }
  void watch(const http::HttpSource* source) {
    const std::lock_guard lock(mutex_);
    source_ = source;
  }

 private:
  struct Post {
    std::string request;
    int fd = -1;
    bool arrived = false;
  };

  void run(std::stop_token stop) {
    while (!stop.stop_requested()) {
      {
        const std::lock_guard lock(mutex_);
        for (auto post = posts_.begin(); post != posts_.end();)
          post = take_answer(*post) ? posts_.erase(post) : std::next(post);
        for (Post& post : posts_)
          if (post.fd < 0 && !send(post)) break;  // nothing may overtake it
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  // True: it is done.
  bool take_answer(Post& post) {
    if (post.fd < 0) return false;
    pollfd poller{post.fd, POLLIN, 0};
    if (poll(&poller, 1, 0) <= 0) return false;
    char bytes[64] = {};
    const ssize_t length = recv(post.fd, bytes, sizeof bytes, 0);
    close(std::exchange(post.fd, -1));
    post.arrived = false;
    return length > 12 && std::string_view(bytes + 9, 1) == "2";
  }

  // True: it has arrived, and those behind it may follow.
  bool send(Post& post) {
    if (source_ == nullptr) return false;
    const std::uint64_t taken = source_->taken();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    post.fd = socket(AF_INET, SOCK_STREAM, 0);
    bool ok = connect(post.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    for (std::size_t at = 0; ok && at < post.request.size();) {
      const ssize_t sent =
          ::send(post.fd, post.request.data() + at, post.request.size() - at, MSG_NOSIGNAL);
      ok = sent > 0;
      at += ok ? static_cast<std::size_t>(sent) : 0;
    }
    for (int i = 0; ok && source_->taken() == taken; ++i) {
      pollfd poller{post.fd, POLLIN, 0};
      ok = poll(&poller, 1, 1) == 0 && i < 10'000;  // an answer at once is a refusal
    }
    if (!ok) close(std::exchange(post.fd, -1));
    post.arrived = ok;
    return ok;
  }

  const int port_;
  std::mutex mutex_;
  std::list<Post> posts_;
  const http::HttpSource* source_ = nullptr;
  std::jthread thread_;
};

// Tells the sender where the source is, while it exists.
class Watched final : public Source {
 public:
  Watched(http::SourceOptions options, Sender& sender)
      : source_(std::make_unique<http::HttpSource>(std::move(options), system_clock())),
        sender_(sender) {}
  ~Watched() override {
    sender_.watch(nullptr);
    source_.reset();
  }
  Status open() override {
    const Status opened = source_->open();
    if (opened) sender_.watch(source_.get());
    return opened;
  }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    return source_->read(out, limits, stop);
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return source_->settle(batch, fates);
  }
  Status flush() override { return source_->flush(); }

 private:
  std::unique_ptr<http::HttpSource> source_;
  Sender& sender_;
};

class HttpSourceStore final : public SourceUnderTest {
 public:
  // Senders keep unsettled events.
  SourceAbilities abilities() const override { return {.persistent = false}; }
  std::unique_ptr<Source> make() override {
    http::SourceOptions options;
    options.port = static_cast<std::uint16_t>(port_);
    // The sender stands for many senders: it has a connection for each waiting post.
    options.connections_per_client_max = options.waiting_max;
    return std::make_unique<Watched>(options, sender_);
  }
  void publish(const NewEvent& event) override {
    sender_.add(request_of(event));
    const auto end = std::chrono::steady_clock::now() + seconds(90);
    while (!sender_.all_are_sent()) {
      if (std::chrono::steady_clock::now() > end)
        throw std::runtime_error("the endpoint has not taken a post for 90 s");
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

 private:
  static std::string encoded(std::string_view text) {
    std::string out;
    for (const char c : text) {
      char hex[4];
      std::snprintf(hex, sizeof hex, "%%%02X", static_cast<unsigned char>(c));
      out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? std::string(1, c) : hex;
    }
    return out;
  }
  static std::string request_of(const NewEvent& event) {
    std::string request = "POST /events" + (event.topic.empty() ? "" : "/" + encoded(event.topic)) +
                          " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    const auto add = [&](std::string_view name, std::string_view value) {
      request += std::string(name) + ": " + std::string(value) + "\r\n";
    };
    add("Content-Length", std::to_string(event.payload.size()));
    add("Content-Type", event.content_type);
    add("CE-SpecVersion", "1.0");
    add("CE-Source", "test");
    add("CE-Id", event.id->to_string());
    add("CE-Type", encoded(event.type));
    add("CE-AggregateType", encoded(event.aggregate_type));
    add("CE-AggregateVersion", std::to_string(event.aggregate_version));
    if (!event.aggregate_id.empty()) add("CE-Subject", encoded(event.aggregate_id));
    for (const Header& header : event.headers) add(header.name, header.value);
    return request + "\r\n" + std::string(event.payload);
  }

  const int port_ = free_port();
  Sender sender_{port_};
};

template <class Base, class Made>
std::unique_ptr<Base> make() {
  return std::make_unique<Made>();
}

INSTANTIATE_TEST_SUITE_P(Http, SinkSuite,
                         testing::Values(SinkCase{"posts", make<SinkUnderTest, HttpSinkStore>}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Http, LimitsSuite,
                         testing::Values(SinkCase{"posts", make<SinkUnderTest, HttpLimits>}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Http, SourceSuite,
                         testing::Values(SourceCase{"endpoint",
                                                    make<SourceUnderTest, HttpSourceStore>}),
                         case_name<SourceCase>);

}  // namespace
}  // namespace dovetail::conformance
