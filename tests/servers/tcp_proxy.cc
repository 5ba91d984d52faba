#include "servers/tcp_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace dovetail::servers {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kChunk = 64 << 10;
constexpr int kTickMs = 10;  // for a slow line

// A broken proxy would make every test on it worthless.
void require(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::abort();
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int new_socket() {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  require(made >= 0, "tcp_proxy: socket");
  const int yes = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return made;
}

int bound_socket(int port) {
  const int made = new_socket();
  const sockaddr_in address = loopback(port);
  require(bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
          "tcp_proxy: bind");
  return made;
}

void close_with_reset(int& fd) {
  if (fd < 0) return;
  const linger at_once{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(fd);
  fd = -1;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

// One direction of a connection.
struct TcpProxy::Stream {
  int from = -1;
  int to = -1;
  bool is_answer = false;
  std::string pending{};
  bool ended = false;   // `from` has sent everything
  bool passed = false;  // and `to` has been told

  bool wants_read(std::uint64_t budget) const { return !ended && pending.empty() && budget > 0; }
};

struct TcpProxy::Link {
  int client = -1;
  int server = -1;
  bool connected = false;
  Stream up{};
  Stream down{};
  std::optional<std::uint64_t> answers_left{};  // until they get lost
  bool lost = false;
  Clock::time_point cut_at = Clock::time_point::max();

  bool closed() const { return client < 0; }
};

TcpProxy::TcpProxy(int server_port, int port) : server_port_(server_port) {
  reserved_ = bound_socket(port);
  sockaddr_in address{};
  socklen_t length = sizeof address;
  getsockname(reserved_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  require(wake_ >= 0, "tcp_proxy: eventfd");
  listen_again();
  thread_ = std::thread([this] { run(); });
}

TcpProxy::~TcpProxy() {
  on_loop([this] { ended_ = true; });
  thread_.join();
  for (Link& link : links_) reset(link);
  if (listener_ >= 0) close(listener_);
  close(reserved_);
  close(wake_);
}

void TcpProxy::cut() {
  on_loop([this] {
    for (Link& link : links_) reset(link);
  });
}

void TcpProxy::refuse(bool refused) {
  on_loop([this, refused] {
    if (!refused && listener_ < 0) listen_again();
    if (!refused || listener_ < 0) return;
    close(listener_);
    listener_ = -1;
  });
}

void TcpProxy::stall() {
  on_loop([this] { stalled_ = true; });
}

void TcpProxy::flow() {
  on_loop([this] { stalled_ = false; });
}

void TcpProxy::lose_answers(std::uint64_t after_bytes) {
  on_loop([this, after_bytes] {
    losing_ = true;
    for (Link& link : links_) link.answers_left = after_bytes;
    lose_after_ = after_bytes;
  });
}

void TcpProxy::slow(std::uint64_t bytes_per_second) {
  on_loop([this, bytes_per_second] {
    rate_ = bytes_per_second;
    request_budget_ = answer_budget_ = 0;
    refilled_at_ = Clock::now();
  });
}

TcpProxy::Counters TcpProxy::counters() {
  Counters now;
  on_loop([this, &now] { now = counters_; });
  return now;
}

void TcpProxy::on_loop(std::function<void()> work) {
  // Shared, because the loop may still use it when we wake up.
  const auto done = std::make_shared<std::promise<void>>();
  {
    const std::lock_guard lock(mutex_);
    work_.emplace_back([done, work = std::move(work)] {
      work();
      done->set_value();
    });
  }
  const std::uint64_t one = 1;
  require(write(wake_, &one, sizeof one) == sizeof one, "tcp_proxy: wake");
  done->get_future().wait();
}

void TcpProxy::take_work() {
  std::uint64_t ignored = 0;
  (void)!read(wake_, &ignored, sizeof ignored);
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(work_);
  }
  for (const auto& one : work) one();
}

void TcpProxy::run() {
  std::vector<pollfd> wanted;
  while (!ended_) {
    refill();
    wanted.assign({{wake_, POLLIN, 0}, {stalled_ ? -1 : listener_, POLLIN, 0}});
    for (Link& link : links_) want(wanted, link);
    if (poll(wanted.data(), wanted.size(), wait_ms()) < 0) require(errno == EINTR, "poll");
    if ((wanted[1].revents & POLLIN) != 0) accept_one();
    std::size_t at = 2;
    for (Link& link : links_) {
      if (at + 1 >= wanted.size()) break;  // accepted just now
      const pollfd client = wanted[at++];
      const pollfd server = wanted[at++];
      serve(link, client.revents, server.revents);
    }
    sweep();
    take_work();  // last, because it may end what was just polled for
  }
}

int TcpProxy::wait_ms() const {
  if (rate_ != 0) return kTickMs;
  Clock::time_point first = Clock::time_point::max();
  for (const Link& link : links_) first = std::min(first, link.cut_at);
  if (first == Clock::time_point::max()) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(first - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count() + 1, 0));
}

// A slow line gets the bytes of a tick at once.
void TcpProxy::refill() {
  if (rate_ == 0) {
    request_budget_ = answer_budget_ = kChunk;
    return;
  }
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> passed = now - refilled_at_;
  const auto earned = static_cast<std::uint64_t>(passed.count() * static_cast<double>(rate_));
  if (earned == 0) return;
  refilled_at_ = now;
  const std::uint64_t most = std::max<std::uint64_t>(rate_ / 10, 1);
  request_budget_ = std::min(request_budget_ + earned, most);
  answer_budget_ = std::min(answer_budget_ + earned, most);
}

void TcpProxy::listen_again() {
  listener_ = bound_socket(port_);
  require(listen(listener_, 128) == 0, "tcp_proxy: listen");
}

void TcpProxy::accept_one() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (client < 0) return;
  const int yes = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  Link& link = links_.emplace_back();
  ++counters_.connections;
  ++counters_.open;
  link.client = client;
  link.server = new_socket();
  link.up = Stream{client, link.server, false};
  link.down = Stream{link.server, client, true};
  if (losing_) link.answers_left = lose_after_;
  const sockaddr_in address = loopback(server_port_);
  if (connect(link.server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    link.connected = true;
  } else if (errno != EINPROGRESS) {
    reset(link);
  }
}

void TcpProxy::want(std::vector<pollfd>& wanted, Link& link) const {
  pollfd client{-1, 0, 0};
  pollfd server{-1, 0, 0};
  if (!link.connected) {
    server.events = POLLOUT;
  } else if (!stalled_) {
    if (link.up.wants_read(request_budget_)) client.events |= POLLIN;
    if (!link.down.pending.empty()) client.events |= POLLOUT;
    if (link.down.wants_read(answer_budget_)) server.events |= POLLIN;
    if (!link.up.pending.empty()) server.events |= POLLOUT;
  }
  // A descriptor that waits for nothing is left out, or poll() would report its end over and over.
  if (client.events != 0) client.fd = link.client;
  if (server.events != 0) server.fd = link.server;
  wanted.push_back(client);
  wanted.push_back(server);
}

void TcpProxy::serve(Link& link, short client, short server) {
  if (!link.connected) {
    if (server == 0) return;
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(link.server, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return reset(link);
    link.connected = true;
    return;
  }
  constexpr short kReadable = POLLIN | POLLHUP | POLLERR;
  pass(link, link.up, (client & kReadable) != 0, (server & POLLOUT) != 0);
  if (!link.closed()) pass(link, link.down, (server & kReadable) != 0, (client & POLLOUT) != 0);
}

void TcpProxy::pass(Link& link, Stream& stream, bool readable, bool writable) {
  const std::uint64_t budget = stream.is_answer ? answer_budget_ : request_budget_;
  if (readable && stream.wants_read(budget)) read_some(link, stream);
  if (!link.closed() && !stream.pending.empty() && (writable || readable)) write_some(link, stream);
  if (link.closed() || !stream.ended || !stream.pending.empty() || stream.passed) return;
  shutdown(stream.to, SHUT_WR);
  stream.passed = true;
}

void TcpProxy::read_some(Link& link, Stream& stream) {
  std::uint64_t& budget = stream.is_answer ? answer_budget_ : request_budget_;
  stream.pending.resize(std::min<std::uint64_t>(kChunk, budget));
  const ssize_t got = recv(stream.from, stream.pending.data(), stream.pending.size(), 0);
  stream.pending.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got < 0 && !would_block()) return reset(link);
  if (got < 0) return;
  if (got == 0) stream.ended = true;
  if (rate_ != 0) budget -= stream.pending.size();
  if (stream.is_answer) lose(link);
}

// Drops the answers that must not arrive.
void TcpProxy::lose(Link& link) {
  std::string& answers = link.down.pending;
  if (!link.lost) {
    if (!link.answers_left || answers.empty()) return;
    if (answers.size() <= *link.answers_left) {
      *link.answers_left -= answers.size();
      return;
    }
    link.lost = true;
    link.cut_at = Clock::now() + kLossTime;
    losing_ = false;
    ++counters_.losses;
    counters_.swallowed += answers.size() - *link.answers_left;
    answers.resize(*link.answers_left);
    for (Link& other : links_) other.answers_left.reset();
    return;
  }
  counters_.swallowed += answers.size();
  answers.clear();
}

void TcpProxy::write_some(Link& link, Stream& stream) {
  const ssize_t sent = send(stream.to, stream.pending.data(), stream.pending.size(), MSG_NOSIGNAL);
  if (sent < 0 && !would_block()) return reset(link);
  if (sent <= 0) return;
  (stream.is_answer ? counters_.answers : counters_.requests) += static_cast<std::uint64_t>(sent);
  stream.pending.erase(0, static_cast<std::size_t>(sent));
}

// Ends connections whose time has come, and removes ended ones.
void TcpProxy::sweep() {
  const Clock::time_point now = Clock::now();
  for (Link& link : links_) {
    const bool over = link.up.passed && link.down.passed;
    if (link.closed() || (!over && link.cut_at > now)) continue;
    // Without a reset, received bytes are still read to the end.
    close(std::exchange(link.server, -1));
    if (!over) {
      reset(link);
      continue;
    }
    close(std::exchange(link.client, -1));
    --counters_.open;
  }
  links_.remove_if([](const Link& link) { return link.closed(); });
}

void TcpProxy::reset(Link& link) {
  if (link.closed()) return;
  close_with_reset(link.client);
  close_with_reset(link.server);
  --counters_.open;
}

}  // namespace dovetail::servers
