#include "webhook/signature.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <array>
#include <optional>

#include "core/check.h"
#include "server/secret.h"

namespace dovetail::http {

namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::string_view kVersion = "v1,";
constexpr std::size_t kSecretBytesMin = 24;
constexpr std::size_t kSecretBytesMax = 64;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::optional<std::string> from_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string padded(text);
  padded.append((4 - padded.size() % 4) % 4, '=');
  std::string bytes(padded.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     bytes_of(padded), static_cast<int>(padded.size()));
  if (length < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(length) - (padded.size() - text.size()));
  return bytes;
}

evp_mac_ctx_st* make_context(std::string_view key) {
  EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  DOVETAIL_CHECK(hmac != nullptr);
  EVP_MAC_CTX* const context = EVP_MAC_CTX_new(hmac);
  EVP_MAC_free(hmac);
  std::string digest = "SHA256";
  const std::array<OSSL_PARAM, 2> parameters{
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_end()};
  DOVETAIL_CHECK(EVP_MAC_init(context, bytes_of(key), key.size(), parameters.data()) == 1);
  return context;
}

// Removes the first word from `text`; empty: none is left.
std::string_view next_word(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t end = std::min(text.find(' ', begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes_of(bytes),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

Result<WebhookSecrets> WebhookSecrets::parse(std::string_view text) {
  WebhookSecrets secrets;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    const bool prefixed = word.starts_with(kPrefix);
    const auto key = from_base64(prefixed ? word.substr(kPrefix.size()) : word);
    if (!prefixed || !key || key->size() < kSecretBytesMin || key->size() > kSecretBytesMax) {
      return fail(Errc::rejected,
                  "a secret for signatures is malformed; each must be \"whsec_\" and 24 to "
                  "64 bytes in base64, separated by spaces");
    }
    secrets.keys_.emplace_back(make_context(*key));
  }
  return secrets;
}

std::string WebhookSecrets::sign_with(evp_mac_ctx_st* key, std::string_view id,
                                      std::string_view timestamp, std::string_view body) {
  std::array<unsigned char, 32> mac{};
  std::size_t length = 0;
  bool ok = EVP_MAC_init(key, nullptr, 0, nullptr) == 1;
  for (const std::string_view part :
       {id, std::string_view("."), timestamp, std::string_view("."), body}) {
    ok = ok && EVP_MAC_update(key, bytes_of(part), part.size()) == 1;
  }
  ok = ok && EVP_MAC_final(key, mac.data(), &length, mac.size()) == 1;
  DOVETAIL_CHECK(ok && length == mac.size());
  return to_base64({reinterpret_cast<const char*>(mac.data()), mac.size()});
}

std::string WebhookSecrets::sign(std::string_view id, std::string_view timestamp,
                                 std::string_view body) {
  std::string value;
  for (const Key& key : keys_) {
    if (!value.empty()) value += ' ';
    value += kVersion;
    value += sign_with(key.get(), id, timestamp, body);
  }
  return value;
}

bool WebhookSecrets::verify(std::string_view signatures, std::string_view id,
                            std::string_view timestamp, std::string_view body) {
  std::vector<std::string> expected;
  for (const Key& key : keys_) expected.push_back(sign_with(key.get(), id, timestamp, body));
  for (std::string_view word = next_word(signatures); !word.empty(); word = next_word(signatures)) {
    if (!word.starts_with(kVersion)) continue;
    word.remove_prefix(kVersion.size());
    for (const std::string& one : expected) {
      if (equal_in_constant_time(word, one)) return true;
    }
  }
  return false;
}

}  // namespace dovetail::http
