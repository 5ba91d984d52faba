// The bytes between a client and our server: plain or with TLS. No sockets: the owner of the socket
// carries the bytes.
#pragma once

#include <string>
#include <string_view>

#include "core/handle.h"
#include "dovetail/result.h"

struct ssl_ctx_st;
struct ssl_st;
extern "C" void SSL_CTX_free(ssl_ctx_st* context);
extern "C" void SSL_free(ssl_st* session);

namespace dovetail::http {

// A certificate and its key. Any thread, after load().
class TlsIdentity {
 public:
  TlsIdentity() = default;  // plain, without TLS
  // Uses TLS 1.2 or newer. rejected: the files cannot be used.
  static Result<TlsIdentity> load(const std::string& cert_file, const std::string& key_file);
  ssl_ctx_st* context() const { return context_.get(); }

 private:
  Handle<ssl_ctx_st, SSL_CTX_free> context_;
};

// One connection. One thread at a time.
class Wire {
 public:
  explicit Wire(const TlsIdentity& identity);

  // Takes received bytes and appends their plain text. False: this is not valid TLS, or the other
  // side has ended. Nothing more comes.
  bool take(std::string_view bytes, std::string& plain);
  // Appends `plain` to out(), encrypted if TLS is used.
  void say(std::string plain);
  // Tells the other side that nothing more comes from us.
  void say_goodbye();

  std::string& out() { return out_; }  // not sent yet

 private:
  void collect();

  Handle<ssl_st, SSL_free> session_;  // null: plain
  std::string out_;
};

}  // namespace dovetail::http
