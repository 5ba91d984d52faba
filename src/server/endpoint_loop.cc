#include "server/endpoint_loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/check.h"

namespace dovetail::http {

namespace {

constexpr auto kGoodbyeMax = std::chrono::seconds(2);
constexpr auto kSweepPause = std::chrono::milliseconds(100);
constexpr auto kLingerMax = std::chrono::seconds(5);
constexpr std::size_t kMoreConnections = 64;  // more than requests: for clients that get 503
constexpr std::size_t kReadBytes = 16 << 10;
constexpr int kAcceptsAtOnce = 64;
constexpr int kSendBufferBytes = 256 << 10;  // otherwise a client that reads nothing holds some MiB

bool try_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// A complete request is never given up.
bool may_be_given_up(const ClientConnection& one) {
  return one.is_lingering || one.talk.wants_bytes();
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Descriptor::reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Endpoint::Loop::Loop(const EndpointOptions& options, Clock& clock, RequestHandler& handler,
                     const TlsIdentity& identity, Descriptor listening)
    : options_(options),
      clock_(clock),
      identity_(identity),
      per_client_max_(options.connections_per_client_max != 0
                          ? options.connections_per_client_max
                          : (options.waiting_max + kMoreConnections) * 3 / 4),
      talks_{options, handler, clock},
      poll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      listening_(std::move(listening)) {
  DOVETAIL_CHECK(poll_.get() >= 0 && wake_.get() >= 0);
  // Their addresses tell them apart from connections.
  epoll_event event{EPOLLIN, {.ptr = &wake_}};
  DOVETAIL_CHECK(epoll_ctl(poll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0);
  event.data.ptr = &listening_;
  DOVETAIL_CHECK(epoll_ctl(poll_.get(), EPOLL_CTL_ADD, listening_.get(), &event) == 0);
}

void Endpoint::Loop::start() {
  thread_ = std::thread([this] { run(); });
}

Endpoint::Loop::~Loop() {
  stop_listening();
  std::unique_lock lock(mutex_);
  all_gone_.wait_for(lock, kGoodbyeMax, [this] { return requests_ == 0 && answers_.empty(); });
  is_ending_ = true;
  lock.unlock();
  wake();
  thread_.join();
}

void Endpoint::Loop::wake() const {
  const std::uint64_t one = 1;
  // A full counter also wakes it.
  static_cast<void>(!write(wake_.get(), &one, sizeof one));
}

// Before what it was woken for is taken. A counter that is not emptied wakes the loop for ever.
void Endpoint::Loop::fall_asleep() const {
  std::uint64_t count = 0;
  static_cast<void>(!read(wake_.get(), &count, sizeof count));
}

void Endpoint::Loop::stop_listening() {
  const std::lock_guard lock(mutex_);
  listening_.reset();  // closing removes it from epoll
}

void Endpoint::Loop::answer(Request& request, Reply reply) {
  {
    const std::lock_guard lock(mutex_);
    answers_.emplace_back(&request, std::move(reply));
  }
  wake();
}

void Endpoint::Loop::run() {
  std::array<epoll_event, 64> ready{};
  while (true) {
    const int pause =
        connections_.empty() && !is_short_ ? -1 : static_cast<int>(kSweepPause.count());
    const int count = epoll_wait(poll_.get(), ready.data(), static_cast<int>(ready.size()), pause);
    DOVETAIL_CHECK(count >= 0 || errno == EINTR);
    bool is_called = false;
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready[static_cast<std::size_t>(i)];
      if (event.data.ptr == &wake_)
        fall_asleep();
      else if (event.data.ptr == &listening_)
        is_called = true;
      else
        on_ready(*static_cast<ClientConnection*>(event.data.ptr), event.events);
    }
    if (is_called && !is_short_) accept_all();
    take_answers();
    const TimePoint now = clock_.now();
    if (now - swept_at_ >= kSweepPause) sweep(now);
    bury();
    const std::lock_guard lock(mutex_);
    requests_ = talks_.requests;
    if (requests_ == 0 && answers_.empty()) all_gone_.notify_all();
    if (is_ending_) return;
  }
}

void Endpoint::Loop::accept_all() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    std::unique_lock lock(mutex_);
    if (listening_.get() < 0) return;
    Descriptor socket(accept4(listening_.get(), reinterpret_cast<sockaddr*>(&address), &length,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int error = errno;
    lock.unlock();
    if (socket.get() >= 0) {
      accept_one(std::move(socket), reinterpret_cast<const sockaddr*>(&address));
      continue;
    }
    if (error == ECONNABORTED || error == EINTR) continue;
    if (!try_later(error)) {
      // Out of descriptors or memory. The listening socket stays ready and would make the loop
      // spin.
      is_short_ = true;
      lock.lock();
      if (listening_.get() >= 0) epoll_ctl(poll_.get(), EPOLL_CTL_DEL, listening_.get(), nullptr);
    }
    return;
  }
}

void Endpoint::Loop::accept_one(Descriptor socket, const sockaddr* address) {
  const auto& proxies = options_.trusted_proxies;
  const bool is_proxy = std::any_of(proxies.begin(), proxies.end(),
                                    [&](const AddressRange& one) { return one.contains(address); });
  std::string client = is_proxy ? std::string() : client_of(address);
  if (!make_room(client)) return;
  const int one = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
  const int fd = socket.get();
  ClientConnection& added = connections_.emplace_back(std::move(socket), talks_, identity_,
                                                      Peer{address_text(address), is_proxy},
                                                      std::move(client), clock_.now());
  added.place = std::prev(connections_.end());
  if (!added.client.empty()) ++counts_[added.client];
  added.events = EPOLLIN;
  epoll_event event{EPOLLIN, {.ptr = &added}};
  if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) end(added);
}

// False: no room for another connection of the client.
bool Endpoint::Loop::make_room(const std::string& client) {
  const auto found = counts_.find(client);
  const bool has_its_share = found != counts_.end() && found->second >= per_client_max_;
  if (!has_its_share && connections_.size() < options_.waiting_max + kMoreConnections) return true;
  ClientConnection* const victim = victim_among(has_its_share ? client : std::string());
  if (victim == nullptr) return false;
  end(*victim);
  bury();
  return true;
}

// The oldest connection without a complete request: of `client` or, if empty, of the client with
// the most.
ClientConnection* Endpoint::Loop::victim_among(const std::string& client) {
  ClientConnection* victim = nullptr;
  std::size_t most = 0;
  for (ClientConnection& one : connections_) {
    if (one.is_dead || !may_be_given_up(one)) continue;
    if (!client.empty() && one.client != client) continue;
    const auto found = counts_.find(one.client);
    const std::size_t count = found == counts_.end() ? 1 : found->second;
    if (victim != nullptr && (count < most || (count == most && one.since >= victim->since)))
      continue;
    victim = &one;
    most = count;
  }
  return victim;
}

void Endpoint::Loop::take_answers() {
  std::vector<std::pair<Request*, Reply>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
    requests_ = talks_.requests;
  }
  for (auto& [request, reply] : answers) {
    ClientConnection& one = *request->connection_;
    one.talk.answer(reply);
    go_on(one);
  }
}

void Endpoint::Loop::on_ready(ClientConnection& one, std::uint32_t events) {
  if (one.is_dead) return;
  const bool is_broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
  if (one.talk.phase() == Conversation::Phase::waiting) {
    // The client left while its request continues; the answer is dropped.
    if (is_broken) epoll_ctl(poll_.get(), EPOLL_CTL_DEL, one.socket.get(), nullptr);
    return;
  }
  if ((events & EPOLLOUT) != 0) go_on(one);
  if (one.is_dead) return;
  if ((events & EPOLLIN) != 0)
    on_readable(one);
  else if (is_broken)
    end(one);
}

void Endpoint::Loop::on_readable(ClientConnection& one) {
  // Further input stays in the socket.
  if (!one.is_lingering && !one.talk.wants_bytes()) return;
  std::array<char, kReadBytes> bytes{};
  const ssize_t got = recv(one.socket.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && try_later(errno)) return;
  if (got <= 0) return end(one);
  if (one.is_lingering) return;
  const auto before = one.talk.phase();
  std::string plain;
  const bool goes_on = one.wire.take({bytes.data(), static_cast<std::size_t>(got)}, plain);
  if (!plain.empty()) one.talk.take(plain);
  one.moved += static_cast<std::uint64_t>(got);
  if (before != one.talk.phase()) {
    // The deadline for a head starts with its first byte; the first one on a connection starts with
    // the connection.
    const bool is_first_head = one.is_new && one.talk.phase() == Conversation::Phase::head;
    if (!is_first_head) one.since = clock_.now();
    one.moved = 0;
    one.is_new = false;
  }
  go_on(one);
  if (!goes_on && !one.is_dead && one.talk.wants_bytes()) end(one);
}

// Sends pending output, then continues with the input that arrived meanwhile.
void Endpoint::Loop::go_on(ClientConnection& one) {
  using Phase = Conversation::Phase;
  while (!one.is_dead) {
    if (!one.talk.out().empty()) {
      one.since = clock_.now();
      one.moved = 0;
      one.wire.say(std::exchange(one.talk.out(), {}));
    }
    if (!send_out(one)) return end(one);
    if (!one.wire.out().empty() || one.is_lingering) break;
    if (one.talk.phase() == Phase::saying) {
      one.talk.said();
      one.since = clock_.now();
      one.moved = 0;
      if (one.talk.phase() != Phase::over) continue;
      one.wire.say_goodbye();
      if (!send_out(one) || !one.talk.is_cut_short()) return end(one);
      shutdown(one.socket.get(), SHUT_WR);
      one.is_lingering = true;
    }
    if (one.talk.phase() == Phase::over && !one.is_lingering) return end(one);
    if (one.talk.out().empty()) break;
  }
  if (!one.is_dead) watch(one);
}

// False: the connection is broken.
bool Endpoint::Loop::send_out(ClientConnection& one) {
  std::string& out = one.wire.out();
  std::size_t at = 0;
  while (at < out.size()) {
    const ssize_t sent = send(one.socket.get(), out.data() + at, out.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && try_later(errno)) break;
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  // Frees memory: answers may be large, and connections are kept.
  if (at == out.size())
    std::string().swap(out);
  else
    out.erase(0, at);
  one.moved += at;
  return true;
}

void Endpoint::Loop::watch(ClientConnection& one) {
  std::uint32_t wanted = 0;
  if (!one.wire.out().empty()) wanted |= EPOLLOUT;
  if (one.is_lingering || one.talk.wants_bytes()) wanted |= EPOLLIN;
  if (wanted == one.events) return;
  one.events = wanted;
  epoll_event event{wanted, {.ptr = &one}};
  // A connection that left epoll while its request waited is broken.
  if (epoll_ctl(poll_.get(), EPOLL_CTL_MOD, one.socket.get(), &event) != 0 && wanted != 0) end(one);
}

void Endpoint::Loop::end(ClientConnection& one) {
  if (std::exchange(one.is_dead, true)) return;
  dead_.push_back(&one);
}

// Not in end(), because ready events may still refer to it.
void Endpoint::Loop::bury() {
  for (ClientConnection* const one : dead_) {
    const auto found = counts_.find(one->client);
    if (found != counts_.end() && --found->second == 0) counts_.erase(found);
    connections_.erase(one->place);
  }
  dead_.clear();
}

bool Endpoint::Loop::is_late(const ClientConnection& one, TimePoint now) const {
  using Phase = Conversation::Phase;
  const Duration passed = now - one.since;
  if (one.is_lingering) return passed > kLingerMax;
  const Duration more = std::chrono::milliseconds(
      one.moved * 1000 / std::max<std::size_t>(1, options_.bytes_per_second_min));
  switch (one.talk.phase()) {
    case Phase::idle:
      return passed > (one.is_new ? options_.head_timeout : options_.receive_timeout);
    case Phase::head:
      return passed > options_.head_timeout;
    case Phase::waiting:
      return false;
    default:
      return passed > options_.receive_timeout + more;
  }
}

void Endpoint::Loop::sweep(TimePoint now) {
  swept_at_ = now;
  for (ClientConnection& one : connections_) {
    if (one.is_dead || !is_late(one, now)) continue;
    if (one.is_lingering || !one.talk.wants_bytes()) {
      end(one);
      continue;
    }
    one.talk.give_up();
    go_on(one);
  }
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_short_, false) && listening_.get() >= 0) {
    epoll_event event{EPOLLIN, {.ptr = &listening_}};
    epoll_ctl(poll_.get(), EPOLL_CTL_ADD, listening_.get(), &event);
  }
}

}  // namespace dovetail::http
