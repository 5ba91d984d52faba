#include "server/wire.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "core/check.h"

namespace dovetail::http {

Result<TlsIdentity> TlsIdentity::load(const std::string& cert_file, const std::string& key_file) {
  TlsIdentity identity;
  identity.context_.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const context = identity.context_.get();
  DOVETAIL_CHECK(context != nullptr);
  DOVETAIL_CHECK(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // OpenSSL would ask for a passphrase at the terminal.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  const bool works =
      SSL_CTX_use_certificate_chain_file(context, cert_file.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) == 1 &&
      SSL_CTX_check_private_key(context) == 1;
  ERR_clear_error();
  if (!works)
    return fail(Errc::rejected,
                "cannot use the certificate " + cert_file + " with the key " + key_file +
                    "; check cert_file and key_file: a matching pair, PEM, without a passphrase");
  return identity;
}

Wire::Wire(const TlsIdentity& identity) {
  if (identity.context() == nullptr) return;
  session_.reset(SSL_new(identity.context()));
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  DOVETAIL_CHECK(session_ != nullptr && in != nullptr && out != nullptr);
  BIO_set_mem_eof_return(in, -1);  // empty means: not now
  BIO_set_mem_eof_return(out, -1);
  SSL_set_bio(session_.get(), in, out);
  SSL_set_accept_state(session_.get());
}

void Wire::collect() {
  BIO* const bio = SSL_get_wbio(session_.get());
  std::array<char, 16 << 10> piece{};
  for (int got = 0; (got = BIO_read(bio, piece.data(), static_cast<int>(piece.size()))) > 0;)
    out_.append(piece.data(), static_cast<std::size_t>(got));
}

bool Wire::take(std::string_view bytes, std::string& plain) {
  if (session_ == nullptr) {
    plain.append(bytes);
    return true;
  }
  DOVETAIL_CHECK(bytes.size() <= INT_MAX);
  ERR_clear_error();
  const int taken =
      BIO_write(SSL_get_rbio(session_.get()), bytes.data(), static_cast<int>(bytes.size()));
  DOVETAIL_CHECK(taken == static_cast<int>(bytes.size()));
  std::array<char, 16 << 10> piece{};
  int got = 0;
  while ((got = SSL_read(session_.get(), piece.data(), static_cast<int>(piece.size()))) > 0)
    plain.append(piece.data(), static_cast<std::size_t>(got));
  const bool goes_on = SSL_get_error(session_.get(), got) == SSL_ERROR_WANT_READ;
  ERR_clear_error();
  collect();  // also sends the alert that says why it ends
  return goes_on;
}

void Wire::say(std::string plain) {
  if (session_ == nullptr) {
    // The usual case: avoids a copy of a large answer.
    if (out_.empty())
      out_ = std::move(plain);
    else
      out_.append(plain);
    return;
  }
  ERR_clear_error();
  std::string_view rest = plain;
  while (!rest.empty()) {
    const int count = static_cast<int>(std::min<std::size_t>(rest.size(), 1 << 20));
    const int said = SSL_write(session_.get(), rest.data(), count);
    if (said <= 0) break;  // the session failed before, and take() reported it
    rest.remove_prefix(static_cast<std::size_t>(said));
  }
  ERR_clear_error();
  collect();
}

void Wire::say_goodbye() {
  if (session_ == nullptr) return;
  ERR_clear_error();
  SSL_shutdown(session_.get());
  ERR_clear_error();
  collect();
}

}  // namespace dovetail::http
