// An HTTP/1.1 server with one thread of its own, which never waits for request handlers. A request
// without an answer yet only takes up a place.
//
// Every client has a deadline for the head of a request, for its body and for reading the answer.
// When all places are taken, the client with the most connections loses its oldest one without a
// complete request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/message/message.h"
#include "dovetail/event.h"
#include "dovetail/result.h"
#include "server/address.h"
#include "server/wire.h"

namespace dovetail::http {

struct ClientConnection;

inline constexpr std::uint64_t kUnknownLength = static_cast<std::uint64_t>(-1);

struct Reply {
  unsigned status = 202;
  std::string text{};  // for people
  unsigned retry_after_s = 0;
  std::string_view header{};  // one more header, such as Allow
  std::string_view header_value{};
  std::vector<Header> headers{};  // further headers, except those about connection and length
  std::string body{};             // raw; used instead of `text`
  std::optional<std::uint64_t> head_bytes{};  // for HEAD: the length of the body that is not sent
};

struct EndpointOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free port
  // Why other machines may connect, or what to set so that they may.
  bool allow_remote = false;
  std::string remote_hint{};
  std::string cert_file{};  // needs key_file; then it serves HTTPS
  std::string key_file{};
  std::size_t body_bytes_max = 1 << 20;
  Duration head_timeout = std::chrono::seconds(10);  // for the whole head and the TLS handshake
  // For a body and for reading an answer, plus one second for each `bytes_per_second_min` moved.
  // Also for the next request on a kept connection.
  Duration receive_timeout = std::chrono::seconds(30);
  std::size_t bytes_per_second_min = 16 << 10;
  // Per IPv4 address or IPv6 /64 network. 0: three quarters of all.
  std::size_t connections_per_client_max = 0;
  // Proxies: without that limit, and trusted in what they say about their clients.
  std::vector<AddressRange> trusted_proxies{};
  std::size_t waiting_max = 500;
  std::size_t waiting_bytes_max = 64 << 20;  // of incomplete bodies
  std::size_t header_bytes_max = 32 << 10;   // of one request
};

// The other side of a connection.
struct Peer {
  std::string text{};  // its address
  bool is_proxy = false;
};

// One request. The views are valid as long as the request.
struct Request {
  std::string_view method{};
  std::string_view target{};   // the path as sent, without the query
  std::string uri{};           // with the query
  std::string peer{};          // the address of the peer
  bool is_from_proxy = false;  // the peer is one of trusted_proxies
  std::vector<MessageHeader> headers{};
  std::string body{};
  bool body_too_large = false;  // the body was not kept
  bool no_room = false;         // the body was not kept: too many others are being received
  TimePoint came_at{};

  std::string_view header(std::string_view lower_name) const;  // the first one; empty: missing

 private:
  friend class Endpoint;
  friend class Conversation;
  ClientConnection* connection_ = nullptr;
  std::string head_bytes_{};
  bool is_whole_ = false;
};

// Decides about requests. Called on the endpoint's thread.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // Called before the body is read. An answer ends the request.
  virtual std::optional<Reply> begin(const Request& request) = 0;
  // Called with the whole body. Empty: Endpoint::answer() follows later.
  virtual std::optional<Reply> take(Request& request) = 0;
};

// Threads: answer() by any; everything else by the thread that owns it.
class Endpoint {
 public:
  Endpoint(EndpointOptions options, Clock& clock, RequestHandler& handler);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();  // REQUIRES: every request that take() left open has its answer. Waits at most 2 s
                // for them to go out.

  // unavailable: cannot listen at the address. rejected: the options are wrong.
  Status listen();
  bool is_listening() const { return loop_ != nullptr; }
  std::uint16_t port() const { return port_; }
  // Takes no more connections; existing ones continue.
  void stop_listening();

  void answer(Request& request, Reply reply);

 private:
  class Loop;  // of the thread

  EndpointOptions options_;
  Clock& clock_;
  RequestHandler& handler_;
  std::uint16_t port_ = 0;
  TlsIdentity identity_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace dovetail::http
