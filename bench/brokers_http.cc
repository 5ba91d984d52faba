// Our sink beside a plain loop over libcurl's multi interface: as many requests in flight, each
// with the same headers, to a server that does nothing but answer. The server is a process of its
// own, so that its CPU is not counted.
#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "brokers.h"
#include "host/host.h"
#include "webhook/sink.h"

namespace dovetail::bench {

namespace {

constexpr std::size_t kEvents = 20'000;
constexpr std::size_t kInFlight = 32;

// What the server has got, in memory that both processes see.
struct Counters {
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> bytes{0};
};

// Answers 200 to every POST with a Content-Length.
class Answerer {
 public:
  Answerer(int listener, Counters& counters) : listener_(listener), counters_(counters) {
    watch(listener);
  }

  void run() {
    std::array<epoll_event, 64> events;
    for (;;) {
      const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        if (fd == listener_) {
          const int client = accept(fd, nullptr, nullptr);
          const int on = 1;
          setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
          watch(client);
        } else if (!serve(fd)) {
          buffers_.erase(fd);
          close(fd);
        }
      }
    }
  }

 private:
  void watch(int fd) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }

  bool serve(int fd) {
    static char bytes[65536];
    const ssize_t length = recv(fd, bytes, sizeof bytes, 0);
    if (length <= 0) return false;
    std::string& buffer = buffers_[fd];
    buffer.append(bytes, static_cast<std::size_t>(length));
    for (;;) {
      const std::size_t head = buffer.find("\r\n\r\n");
      const std::size_t field = buffer.find("Content-Length: ");
      if (head == std::string::npos || field == std::string::npos) return true;
      std::size_t body = 0;
      std::from_chars(buffer.data() + field + 16, buffer.data() + head, body);
      const std::size_t whole = head + 4 + body;
      if (buffer.size() < whole) return true;
      buffer.erase(0, whole);
      counters_.requests.fetch_add(1);
      counters_.bytes.fetch_add(whole);
      constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
      if (send(fd, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL) < 0) return false;
    }
  }

  const int listener_;
  Counters& counters_;
  const int epoll_ = epoll_create1(0);
  std::map<int, std::string> buffers_;
};

class Server {
 public:
  Server() {
    void* const shared =
        mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(shared != MAP_FAILED, "no shared memory");
    counters_ = new (shared) Counters;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    require(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                listen(listener, 256) == 0 &&
                getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0,
            "cannot listen on loopback");
    url_ = fmt::format("http://127.0.0.1:{}/events", ntohs(address.sin_port));
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      Answerer(listener, *counters_).run();
    }
    close(listener);
    require(child_ > 0, "cannot start the server");
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    munmap(counters_, sizeof(Counters));
  }
  const std::string& url() const { return url_; }
  std::uint64_t bytes() const { return counters_->bytes.load(); }
  std::uint64_t requests() const { return counters_->requests.load(); }

 private:
  Counters* counters_ = nullptr;
  std::string url_;
  pid_t child_ = -1;
};

std::size_t ignore(char*, std::size_t, std::size_t count, void*) { return count; }

// A handle and the headers of its request.
struct Transfer {
  CURL* easy = curl_easy_init();
  curl_slist* headers = nullptr;

  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
  }

  void set_up(const std::string& url) {
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "dovetail");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &ignore);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 15'000L);
  }
  // The headers that our sink sends, written by hand.
  void fill(const Event& event) {
    curl_slist_free_all(headers);
    headers = nullptr;
    const std::string id = event.id.to_string();
    const auto add = [this](std::string_view name, std::string_view value) {
      headers = curl_slist_append(headers, fmt::format("{}: {}", name, value).c_str());
    };
    add("ce-specversion", "1.0");
    add("ce-id", id);
    add("ce-source", "dovetail");
    add("ce-type", event.type);
    add("ce-time", "2026-01-01T00:00:00.000000Z");
    add("ce-subject", event.aggregate_id);
    add("ce-aggregatetype", event.aggregate_type);
    add("ce-aggregateversion", std::to_string(event.aggregate_version));
    add("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    add("content-type", event.content_type);
    add("idempotency-key", id);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(event.payload.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, event.payload.data());
  }
};

Speed bare_loop(const Server& server, const std::vector<const Event*>& events) {
  std::array<Transfer, kInFlight> transfers;
  CURLM* const multi = curl_multi_init();
  const Speed speed = measured(events.size(), [&] {
    std::size_t sent = 0;
    std::size_t confirmed = 0;
    const auto send = [&](Transfer& transfer) {
      if (sent == events.size()) return;
      transfer.fill(*events[sent++]);
      curl_multi_add_handle(multi, transfer.easy);
    };
    for (Transfer& transfer : transfers) {
      transfer.set_up(server.url());
      send(transfer);
    }
    while (confirmed < events.size()) {
      int running = 0;
      curl_multi_perform(multi, &running);
      int left = 0;
      while (const CURLMsg* const message = curl_multi_info_read(multi, &left)) {
        long status = 0;
        Transfer* transfer = nullptr;
        curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        require(message->data.result == CURLE_OK && status == 200, "an event was not confirmed");
        curl_multi_remove_handle(multi, transfer->easy);
        ++confirmed;
        send(*transfer);
      }
      if (confirmed < events.size()) curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
    }
  });
  curl_multi_cleanup(multi);
  return speed;
}

std::unique_ptr<Sink> our_sink(const Server& server) {
  http::SinkOptions options;
  options.url = server.url();
  options.allow_private = true;
  options.requests_in_flight_max = kInFlight;
  return std::make_unique<http::HttpSink>(options, system_clock());
}

}  // namespace

void bench_http(Report& report) {
  const Server server;
  curl_global_init(CURL_GLOBAL_DEFAULT);
  std::uint64_t known = 0;
  const auto bytes = [&] {
    require(server.requests() % kEvents == 0, "events were lost");
    const std::uint64_t before = std::exchange(known, server.bytes());
    return static_cast<std::int64_t>(known - before);
  };
  compare(report,
          {"http", [&] { return our_sink(server); },
           [&](const auto& all) { return bare_loop(server, all); }, bytes},
          BenchEvents(kEvents, "bench"));
}

}  // namespace dovetail::bench
