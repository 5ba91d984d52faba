// Signatures of Standard Webhooks: HMAC-SHA256 over "id.timestamp.body".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/handle.h"
#include "dovetail/result.h"

struct evp_mac_ctx_st;
extern "C" void EVP_MAC_CTX_free(evp_mac_ctx_st* context);

namespace dovetail::http {

std::string to_base64(std::string_view bytes);

// One thread at a time.
class WebhookSecrets {
 public:
  // "whsec_" and base64 of 24 to 64 bytes, separated by spaces; none if the text is empty.
  // rejected: one has another form; the error text does not show it.
  static Result<WebhookSecrets> parse(std::string_view text);

  bool empty() const { return keys_.empty(); }
  // The value of the header webhook-signature: one signature per secret.
  std::string sign(std::string_view id, std::string_view timestamp, std::string_view body);
  // Whether `signatures`, the value of that header, has one made by one of the secrets.
  bool verify(std::string_view signatures, std::string_view id, std::string_view timestamp,
              std::string_view body);

 private:
  using Key = Handle<evp_mac_ctx_st, EVP_MAC_CTX_free>;
  static std::string sign_with(evp_mac_ctx_st* key, std::string_view id, std::string_view timestamp,
                               std::string_view body);

  std::vector<Key> keys_;
};

}  // namespace dovetail::http
