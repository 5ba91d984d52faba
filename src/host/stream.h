// A TCP connection, plain or with TLS, for the clients of brokers that are ours from the socket up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::net {

struct Endpoint {
  std::string host;  // a name or an address; an IPv6 address without brackets
  std::uint16_t port = 0;

  // "host:port", with brackets around an IPv6 address.
  std::string to_string() const;
};

// Only what is written as a number, or is "localhost"; nobody is asked for other names. An IPv6
// address may have brackets.
bool is_loopback(std::string_view host);

struct TlsOptions {
  std::string ca_file{};      // PEM; empty: what the system trusts
  std::string cert_file{};    // PEM, of the client, with what is needed of its chain; empty: none
  std::string key_file{};     // PEM, of the client, without a passphrase
  std::string server_name{};  // that the certificate must be for; empty: the endpoint's host
};

// One thread at a time, except for wake(). Bytes are never written by halves without a word: every
// error closes the connection for good, and it is never repaired. Raises no SIGPIPE, throws
// nothing.
//
// All errors are `unavailable`, except for files of TLS that cannot be used: those are `rejected`.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  // Tries every address that the name has. Waits at most `timeout`, and for the system's resolver,
  // which has limits of its own.
  static Result<Stream> connect(const Endpoint& endpoint, Duration timeout);

  // Goes on with TLS 1.2 or newer. The certificate must come from an authority that we trust and be
  // for the name that we connected to. What the server has sent in plain before must have been
  // read.
  Status start_tls(const TlsOptions& options, Duration timeout);

  // Take what can be had without waiting: 0 means not now.
  Result<std::size_t> read_some(std::span<char> into);
  Result<std::size_t> write_some(std::string_view bytes);

  // Waits until reading or, when asked for, writing may go on, until wake(), or `timeout`.
  Status wait(bool for_writing, Duration timeout);

  // The whole of `bytes`, within `timeout`. Meanwhile it reads nothing: only for those who know
  // that the other side does not stop reading until it is read.
  Status write_all(std::string_view bytes, Duration timeout);
  // At least one byte, within `timeout`; 0: nothing came, or wake().
  Result<std::size_t> read_within(std::span<char> into, Duration timeout);

  // Ends a wait that is going on, or else the next one. Any thread, while the stream lives.
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
