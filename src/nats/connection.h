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
  std::string cluster{};              // empty: it stands alone
  std::size_t max_payload = 1 << 20;  // headers and payload of one message
  bool jetstream = false;
};

// One thread at a time, except for wake(). Writes are collected and go out together. Every error of
// a call means that the connection is of no use any more; it is thrown away, never repaired.
// Errors never show a password or a token.
class Connection {
 public:
  // Called with each message and each error that leaves the connection alive. What it gets is valid
  // during the call only.
  using Handler = std::function<void(const Frame&)>;

  Connection() = default;

  // Connects, starts TLS where it is wanted, logs in, and subscribes to everything below inbox().
  // Tries the servers in turn, beginning with number `first` (of any size).
  static Result<Connection> open(const ConnectionOptions& options, std::size_t first = 0);

  bool is_open() const { return stream_.is_open(); }
  const ServerInfo& server() const { return server_; }
  // "_INBOX.<of this connection alone>."; whatever is sent below it comes to us.
  const std::string& inbox() const { return inbox_; }
  std::uint64_t inbox_subscription() const { return 1; }

  // Everything that is to be written, for those who append to it directly.
  std::string& out() { return out_; }
  std::size_t unwritten() const { return out_.size() - written_; }
  void publish(std::string_view subject, std::string_view reply, std::string_view payload) {
    append_publish(out_, subject, reply, {}, payload);
  }
  // A second subscription, for messages that keep the subject under which they were published.
  void subscribe(std::string_view subject, std::uint64_t number);
  void ping() { out_ += "PING\r\n"; }
  std::uint64_t pongs() const { return pongs_; }  // that came so far

  // Writes what the socket takes, without waiting.
  Status write();
  // Hands over what has come; waits for at most `timeout` when nothing had, until something comes
  // or wake(). Writes meanwhile.
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
