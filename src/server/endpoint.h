// An HTTP/1.1 server with one thread of its own, which never waits for those who answer. A request
// that has no answer yet costs it a place, and nothing else.
//
// Every client has a deadline for the head of a request, for its body and for taking the answer.
// When all places are taken, the client that has the most gives up the oldest that has no whole
// request.
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
  std::string_view header{};  // one more, such as Allow
  std::string_view header_value{};
  std::vector<Header> headers{};  // more of them, not about the connection or the length
  std::string body{};             // instead of `text`, as it is
  std::optional<std::uint64_t> head_bytes{};  // what HEAD says of a body that is not sent
};

struct EndpointOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any that is free
  // Why others may reach it, or what to set so that they may.
  bool allow_remote = false;
  std::string remote_hint{};
  std::string cert_file{};  // with key_file: HTTPS
  std::string key_file{};
  std::size_t body_bytes_max = 1 << 20;
  Duration head_timeout = std::chrono::seconds(10);  // for all of it, and for the handshake of TLS
  // For a body and for taking an answer, with a second more for each `bytes_per_second_min` that
  // have moved; and for the next request on a connection that is kept.
  Duration receive_timeout = std::chrono::seconds(30);
  std::size_t bytes_per_second_min = 16 << 10;
  // Of one address, or of one network of 64 bits in IPv6. 0: three quarters of all.
  std::size_t connections_per_client_max = 0;
  // Who speaks for others: not bounded by that, and believed in what it says about its clients.
  std::vector<AddressRange> trusted_proxies{};
  std::size_t waiting_max = 500;
  std::size_t waiting_bytes_max = 64 << 20;  // of bodies that are not whole
  std::size_t header_bytes_max = 32 << 10;   // of one request
};

// Who is at the other side of a connection.
struct Peer {
  std::string text{};  // its address
  bool is_proxy = false;
};

// One request. The views end with it.
struct Request {
  std::string_view method{};
  std::string_view target{};   // path as it was sent, without the query
  std::string uri{};           // with it
  std::string peer{};          // the address of the other side
  bool is_from_proxy = false;  // that side is one of trusted_proxies
  std::vector<MessageHeader> headers{};
  std::string body{};
  bool body_too_large = false;  // the body was not kept
  bool no_room = false;         // nor here: too many others are being received
  TimePoint came_at{};

  std::string_view header(std::string_view lower_name) const;  // the first; empty: none

 private:
  friend class Endpoint;
  friend class Conversation;
  ClientConnection* connection_ = nullptr;
  std::string head_bytes_{};
  bool is_whole_ = false;
};

// What decides about requests; called by the endpoint's thread.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // Before the body is read: an answer ends it here.
  virtual std::optional<Reply> begin(const Request& request) = 0;
  // With the whole body. None: Endpoint::answer() comes later.
  virtual std::optional<Reply> take(Request& request) = 0;
};

// Threads: everything but answer() by the one that owns it; answer() by any.
class Endpoint {
 public:
  Endpoint(EndpointOptions options, Clock& clock, RequestHandler& handler);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();  // REQUIRES: what take() left open is answered. Waits 2 s at most for them to go
                // out.

  // unavailable: the address cannot be listened at. rejected: the options are wrong.
  Status listen();
  bool is_listening() const { return loop_ != nullptr; }
  std::uint16_t port() const { return port_; }
  // Takes no more connections; those that are there go on.
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
