// A TCP connection, plain or with TLS, for dovetail's own broker clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "dovetail/broker.h"
#include "dovetail/result.h"

namespace dovetail::net {

// Whether `host` is a loopback address or "localhost". Resolves no names. An IPv6 address may have
// brackets.
bool is_loopback(std::string_view host);

// One thread at a time, except wake(). Every error closes the connection for good; it is never
// repaired, so bytes cannot be lost in the middle unnoticed. Raises no SIGPIPE, throws
// nothing.
//
// All errors are `unavailable`, except unusable TLS files: those are `rejected`.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  // Tries every address of the name. Waits at most `timeout`, plus the time of the system's
  // resolver, which has its own limits.
  static Result<Stream> connect(const Endpoint& endpoint, Duration timeout);

  // Starts TLS 1.2 or newer. The certificate must come from a trusted authority and name
  // the host of this connection. Read everything that the server has sent in plain text
  // before.
  Status start_tls(const TlsOptions& options, Duration timeout);

  // Read or write as much as possible without waiting. 0: nothing now.
  Result<std::size_t> read_some(std::span<char> into);
  Result<std::size_t> write_some(std::string_view bytes);

  // Waits until it can read, or write if `for_writing`; ends at wake() or after `timeout`.
  Status wait(bool for_writing, Duration timeout);

  // Writes all of `bytes` within `timeout`. It does not read meanwhile: use it only if the peer
  // keeps reading even when its own data is not read.
  Status write_all(std::string_view bytes, Duration timeout);
  // At least one byte, within `timeout`; 0: nothing came, or wake() was called.
  Result<std::size_t> read_within(std::span<char> into, Duration timeout);

  // Ends the current wait, or else the next one. Any thread, while the stream exists.
  void wake();

  bool is_open() const;
  bool is_encrypted() const;
  void close();

 private:
  struct State;
  explicit Stream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::net
