#include "server/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "core/check.h"

namespace dovetail::http {

bool equal_in_constant_time(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string keyed_digest(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  DOVETAIL_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                      reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                      digest.data(), &length) != nullptr);
  return {reinterpret_cast<const char*>(digest.data()), length};
}

}  // namespace dovetail::http
