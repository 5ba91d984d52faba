#include "host/stream.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/handle.h"

namespace dovetail::net {

namespace {

using Steady = std::chrono::steady_clock;

using Context = Handle<SSL_CTX, SSL_CTX_free>;
using Session = Handle<SSL, SSL_free>;
using Addresses = Handle<addrinfo, freeaddrinfo>;

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

class Deadline {
 public:
  explicit Deadline(Duration timeout) : at_(Steady::now() + timeout) {}
  Duration left() const {
    return std::max(Duration{0}, std::chrono::duration_cast<Duration>(at_ - Steady::now()));
  }
  bool has_passed() const { return Steady::now() >= at_; }

 private:
  Steady::time_point at_;
};

// Rounded up, so that a wait below a millisecond does not become a busy loop.
int poll_milliseconds(Duration timeout) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(timeout, Duration{0}));
  return static_cast<int>(std::min<std::int64_t>(ms.count(), std::numeric_limits<int>::max()));
}

std::string system_text(int number) {
  std::array<char, 200> text{};
  return strerror_r(number, text.data(), text.size());
}

// Detects a vanished peer within half a minute, even if nothing is written.
void watch_peer(int fd) {
  const auto set = [fd](int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

// Empty: connected.
std::string connect_one(const addrinfo& address, const Deadline& deadline, Descriptor& out) {
  Descriptor fd(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_text(errno);
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return system_text(errno);
    pollfd waiting{fd.get(), POLLOUT, 0};
    int ready = 0;
    do ready = poll(&waiting, 1, poll_milliseconds(deadline.left()));
    while (ready < 0 && errno == EINTR && !deadline.has_passed());
    if (ready <= 0) return "no answer within the time limit";
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return system_text(error);
  }
  watch_peer(fd.get());
  out = std::move(fd);
  return {};
}

// OpenSSL's own socket BIO raises SIGPIPE.
int fd_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

bool try_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

int bio_write(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(fd_of(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && try_later(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = recv(fd_of(bio), bytes, static_cast<std::size_t>(size), 0);
  if (got < 0 && try_later(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* bio_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dovetail");
    DOVETAIL_CHECK(made != nullptr);
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

std::string tls_text() {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "the connection was closed" : reason;
}

Status file_error(std::string_view what, const std::string& file) {
  return fail(Errc::rejected, std::string(what) + " " + file + " cannot be used: " + tls_text() +
                                  "; check that the file exists, is readable and is PEM");
}

Status load_files(SSL_CTX* context, const TlsOptions& options) {
  // A daemon cannot ask for a passphrase.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  if (options.ca_file.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) != 1)
      return fail(Errc::rejected,
                  "the system's certificates cannot be used: " + tls_text() + "; set ca_file");
  } else if (SSL_CTX_load_verify_file(context, options.ca_file.c_str()) != 1) {
    return file_error("ca_file", options.ca_file);
  }
  if (options.cert_file.empty() != options.key_file.empty())
    return fail(Errc::rejected, "cert_file and key_file must be set together; set both or neither");
  if (options.cert_file.empty()) return {};
  if (SSL_CTX_use_certificate_chain_file(context, options.cert_file.c_str()) != 1)
    return file_error("cert_file", options.cert_file);
  if (SSL_CTX_use_PrivateKey_file(context, options.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return file_error("key_file", options.key_file);
  return {};
}

Result<Context> make_context(const TlsOptions& options) {
  Context context(SSL_CTX_new(TLS_client_method()));
  DOVETAIL_CHECK(context != nullptr);
  DOVETAIL_CHECK(SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  DOVETAIL_TRY(load_files(context.get(), options));
  return context;
}

// Requests `name` by SNI and requires a certificate for it.
Status expect_name(SSL* session, const std::string& name) {
  X509_VERIFY_PARAM* const expected = SSL_get0_param(session);
  X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (X509_VERIFY_PARAM_set1_ip_asc(expected, name.c_str()) == 1) return {};
  ERR_clear_error();
  if (name.empty() || X509_VERIFY_PARAM_set1_host(expected, name.c_str(), name.size()) != 1 ||
      SSL_set_tlsext_host_name(session, name.c_str()) != 1)
    return fail(Errc::rejected, "'" + name + "' is not a valid server name; check the address");
  return {};
}

}  // namespace

struct Stream::State {
  Endpoint endpoint;
  Descriptor socket;
  Descriptor waker;
  // After the socket, because SSL_free() still needs it.
  Context context;
  Session session;
  // What the last TLS call waits for: its own messages may need the other direction.
  bool read_needs_writing = false;
  bool write_needs_reading = false;

  void close() {
    session.reset();
    context.reset();
    socket.close();
  }
  tl::unexpected<Error> lost(const std::string& why) {
    close();
    return fail(Errc::unavailable, "the connection to " + endpoint.to_string() + " was lost: " +
                                       why + "; check that the server runs and is reachable");
  }
  Result<std::size_t> tls_done(int result, std::size_t count, bool& needs_other, int other);
  Status handshake(const Deadline& deadline);
};

bool is_loopback(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  if (inet_pton(AF_INET6, text.c_str(), &six) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&six)) return six.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&six);
}

std::string Endpoint::to_string() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Stream::Stream() = default;
Stream::~Stream() = default;
Stream::Stream(Stream&& other) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept = default;
Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}

bool Stream::is_open() const { return state_ != nullptr && state_->socket; }
bool Stream::is_encrypted() const { return state_ != nullptr && state_->session != nullptr; }

void Stream::close() {
  if (state_ != nullptr) state_->close();
}

Result<Stream> Stream::connect(const Endpoint& endpoint, Duration timeout) {
  const Deadline deadline(timeout);
  const auto failed = [&](const std::string& why) {
    return fail(Errc::unavailable, "cannot connect to " + endpoint.to_string() + ": " + why +
                                       "; check the address and that the server runs");
  };
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int code = getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) return failed(gai_strerror(code));
  const Addresses addresses(found);
  auto state = std::make_unique<State>();
  state->endpoint = endpoint;
  state->waker = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!state->waker) return failed(system_text(errno));
  std::string why = "the name has no address";
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    // The first address may never answer, so it must not use up the whole time limit.
    const Duration share = one->ai_next == nullptr ? deadline.left() : deadline.left() / 2;
    why = connect_one(*one, Deadline(share), state->socket);
    if (why.empty()) return Stream(std::move(state));
  }
  return failed(why);
}

Status Stream::start_tls(const TlsOptions& options, Duration timeout) {
  DOVETAIL_CHECK(is_open() && !is_encrypted());
  Result<Context> context = make_context(options);
  if (!context) {
    close();
    return fail(context.error());
  }
  state_->context = std::move(*context);
  Session session(SSL_new(state_->context.get()));
  BIO* const bio = BIO_new(bio_method());
  DOVETAIL_CHECK(session != nullptr && bio != nullptr);
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(state_->socket.get())));
  BIO_set_init(bio, 1);
  SSL_set_bio(session.get(), bio, bio);
  const std::string& name =
      options.server_name.empty() ? state_->endpoint.host : options.server_name;
  if (Status expected = expect_name(session.get(), name); !expected) {
    close();
    return expected;
  }
  state_->session = std::move(session);
  return state_->handshake(Deadline(timeout));
}

Status Stream::State::handshake(const Deadline& deadline) {
  while (true) {
    ERR_clear_error();
    const int result = SSL_connect(session.get());
    if (result == 1) return {};
    const int wanted = SSL_get_error(session.get(), result);
    if (wanted != SSL_ERROR_WANT_READ && wanted != SSL_ERROR_WANT_WRITE) break;
    if (deadline.has_passed()) return lost("no TLS handshake within the time limit");
    pollfd waiting{socket.get(),
                   static_cast<short>(wanted == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
    (void)poll(&waiting, 1, poll_milliseconds(deadline.left()));
  }
  const long verified = SSL_get_verify_result(session.get());
  const std::string why =
      verified == X509_V_OK ? tls_text() : X509_verify_cert_error_string(verified);
  close();
  return fail(Errc::unavailable,
              "no TLS connection to " + endpoint.to_string() + ": " + why +
                  (verified == X509_V_OK ? "; check that the server speaks TLS on this port"
                                         : "; check ca_file and the name in the certificate"));
}

// The result of SSL_read or SSL_write. `other` is the direction that the call does not use itself.
Result<std::size_t> Stream::State::tls_done(int result, std::size_t count, bool& needs_other,
                                            int other) {
  needs_other = false;
  if (result == 1) return count;
  const int saved_errno = errno;
  const int wanted = SSL_get_error(session.get(), result);
  if (wanted == SSL_ERROR_WANT_READ || wanted == SSL_ERROR_WANT_WRITE) {
    needs_other = wanted == other;
    return std::size_t{0};
  }
  if (wanted == SSL_ERROR_SYSCALL && saved_errno != 0) return lost(system_text(saved_errno));
  return lost(wanted == SSL_ERROR_ZERO_RETURN ? "the server closed it" : tls_text());
}

Result<std::size_t> Stream::read_some(std::span<char> into) {
  DOVETAIL_CHECK(is_open() && !into.empty());
  if (is_encrypted()) {
    std::size_t got = 0;
    ERR_clear_error();
    errno = 0;
    const int result = SSL_read_ex(state_->session.get(), into.data(), into.size(), &got);
    return state_->tls_done(result, got, state_->read_needs_writing, SSL_ERROR_WANT_WRITE);
  }
  const ssize_t got = recv(state_->socket.get(), into.data(), into.size(), 0);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) return state_->lost("the server closed it");
  if (try_later(errno)) return std::size_t{0};
  return state_->lost(system_text(errno));
}

Result<std::size_t> Stream::write_some(std::string_view bytes) {
  DOVETAIL_CHECK(is_open());
  if (bytes.empty()) return std::size_t{0};
  if (is_encrypted()) {
    std::size_t sent = 0;
    ERR_clear_error();
    errno = 0;
    const int result = SSL_write_ex(state_->session.get(), bytes.data(), bytes.size(), &sent);
    return state_->tls_done(result, sent, state_->write_needs_reading, SSL_ERROR_WANT_READ);
  }
  const ssize_t sent = send(state_->socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (try_later(errno)) return std::size_t{0};
  return state_->lost(system_text(errno));
}

Status Stream::wait(bool for_writing, Duration timeout) {
  DOVETAIL_CHECK(is_open());
  if (is_encrypted() && SSL_pending(state_->session.get()) > 0) return {};
  const bool reads = !state_->read_needs_writing || (for_writing && state_->write_needs_reading);
  const bool writes = state_->read_needs_writing || (for_writing && !state_->write_needs_reading);
  std::array<pollfd, 2> waiting{
      pollfd{state_->socket.get(),
             static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0},
      pollfd{state_->waker.get(), POLLIN, 0}};
  if (poll(waiting.data(), waiting.size(), poll_milliseconds(timeout)) < 0 && errno != EINTR)
    return state_->lost(system_text(errno));
  if ((waiting[1].revents & POLLIN) != 0) {
    std::uint64_t count = 0;
    (void)!::read(state_->waker.get(), &count, sizeof count);
  }
  return {};
}

Status Stream::write_all(std::string_view bytes, Duration timeout) {
  const Deadline deadline(timeout);
  while (true) {
    const Result<std::size_t> sent = write_some(bytes);
    if (!sent) return fail(sent.error());
    bytes.remove_prefix(*sent);
    if (bytes.empty()) return {};
    if (*sent > 0) continue;
    if (deadline.has_passed()) return state_->lost("it accepts no more bytes");
    // Not wait(): unread input would end it at once.
    const short direction = state_->write_needs_reading ? POLLIN : POLLOUT;
    pollfd waiting{state_->socket.get(), direction, 0};
    (void)poll(&waiting, 1, poll_milliseconds(deadline.left()));
  }
}

Result<std::size_t> Stream::read_within(std::span<char> into, Duration timeout) {
  const Result<std::size_t> got = read_some(into);
  if (!got || *got > 0) return got;
  DOVETAIL_TRY(wait(false, timeout));
  return read_some(into);
}

void Stream::wake() {
  if (state_ == nullptr) return;
  const std::uint64_t one = 1;
  (void)!::write(state_->waker.get(), &one, sizeof one);
}

}  // namespace dovetail::net
