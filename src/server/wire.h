// Bytes as they travel to a server of ours: plain, or with TLS. No sockets: those who have them
// carry the bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "dovetail/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace dovetail::http {

// A certificate and its key. Any thread, after load().
class TlsIdentity {
 public:
  TlsIdentity() = default;  // none: plain
  // rejected: the files cannot be used. TLS 1.2 or newer.
  static Result<TlsIdentity> load(const std::string& cert_file, const std::string& key_file);
  ssl_ctx_st* context() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  std::unique_ptr<ssl_ctx_st, Free> context_;
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
  struct Free {
    void operator()(ssl_st* session) const;
  };
  void collect();

  std::unique_ptr<ssl_st, Free> session_;  // null: plain
  std::string out_;
};

}  // namespace dovetail::http
