// Bytes as they travel to a server of ours: plain, or with TLS. No sockets: those who have them
// carry the bytes.
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
  TlsIdentity() = default;  // none: plain
  // rejected: the files cannot be used. TLS 1.2 or newer.
  static Result<TlsIdentity> load(const std::string& cert_file, const std::string& key_file);
  ssl_ctx_st* context() const { return context_.get(); }

 private:
  Handle<ssl_ctx_st, SSL_CTX_free> context_;
};

// One connection. One thread at a time.
class Wire {
 public:
  explicit Wire(const TlsIdentity& identity);

  // Takes what came and appends what it says. False: it is not what TLS allows, or the other side
  // has ended; nothing more comes.
  bool take(std::string_view bytes, std::string& plain);
  // Appends to out() what carries `plain`.
  void say(std::string plain);
  // The last thing that is said: nothing more comes from us.
  void say_goodbye();

  std::string& out() { return out_; }  // not sent yet

 private:
  void collect();

  Handle<ssl_st, SSL_free> session_;  // null: plain
  std::string out_;
};

}  // namespace dovetail::http
