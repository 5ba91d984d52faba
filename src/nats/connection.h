// One connection to a NATS server.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "dovetail/result.h"
#include "host/stream.h"
#include "nats/options.h"
#include "nats/protocol.h"

namespace dovetail::nats {

struct ServerInfo {
  std::string version{};
  std::string cluster{};              // empty: a single server
  std::size_t max_payload = 1 << 20;  // for headers and payload of one message
  bool jetstream = false;
};

// One thread at a time, except wake(). Writes are collected and go out together. After an error the
// connection cannot be used any more; it is replaced, never repaired. Error texts contain no
// password or token.
class Connection {
 public:
  // Gets each message, and each error that does not end the connection. The frame is valid during
  // the call only.
  using Handler = std::function<void(const Frame&)>;

  Connection() = default;

  // Connects, starts TLS if wanted, logs in and subscribes to everything under inbox(). Tries the
  // servers in turn, starting with number `first` (any value).
  static Result<Connection> open(const ConnectionOptions& options, std::size_t first = 0);

  bool is_open() const { return stream_.is_open(); }
  const ServerInfo& server() const { return server_; }
  // "_INBOX.<unique to this connection>."; subjects under it reach us.
  const std::string& inbox() const { return inbox_; }
  std::uint64_t inbox_subscription() const { return 1; }

  // The bytes to be written; callers may append to them.
  std::string& out() { return out_; }
  std::size_t unwritten() const { return out_.size() - written_; }
  void publish(std::string_view subject, std::string_view reply, std::string_view payload) {
    append_publish(out_, subject, reply, {}, payload);
  }
  // A second subscription, for messages that keep their published subject.
  void subscribe(std::string_view subject, std::uint64_t number);
  void ping() { out_ += "PING\r\n"; }
  std::uint64_t pongs() const { return pongs_; }  // received so far

  // Writes what the socket takes, without waiting.
  Status write();
  // Passes received frames to the handler. If there are none, waits at most `timeout` for one;
  // wake() ends the wait. Also writes.
  Status pump(Duration timeout, const Handler& handler);

  void wake() { stream_.wake(); }
  void close() { stream_.close(); }

 private:
  Status log_in(const ConnectionOptions& options);
  Status take_info(const ConnectionOptions& options);
  Status wait_for_pong(Duration timeout);
  Result<bool> handle_buffered(const Handler& handler);
  Result<bool> read();
  Status refused(std::string_view error_text);

  net::Stream stream_;
  net::Endpoint endpoint_;
  ServerInfo server_;
  std::string inbox_;
  std::string out_;
  std::size_t written_ = 0;  // of out_
  std::string in_;
  std::size_t filled_ = 0;  // of in_
  std::size_t parsed_ = 0;  // of in_
  std::uint64_t pongs_ = 0;
};

}  // namespace dovetail::nats
