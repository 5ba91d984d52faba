#include "gateway/client_identity.h"

#include "core/ascii.h"
#include "core/event/sha256.h"
#include "dovetail/idempotency.h"
#include "server/header_field.h"

namespace dovetail::http {

namespace {

const std::vector<std::string> kLogins{"authorization", "cookie",       "x-api-key",
                                       "api-key",       "x-auth-token", "x-access-token"};

// Includes every value, because a service may not read the first one. The lengths separate values
// unambiguously. Empty: the request has none of the headers.
std::string values_of(const Request& request, const std::vector<std::string>& lower_names) {
  std::string values;
  bool any = false;
  for (const std::string& name : lower_names) {
    std::size_t count = 0;
    for (const MessageHeader& header : request.headers) {
      if (to_lower(header.name) != name) continue;
      any |= !header.value.empty();
      if (count++ > 0) values += '+';
      values += std::to_string(header.value.size()) + ":" + std::string(header.value);
    }
    if (count == 0) values += "0:";
  }
  return any ? values : "";
}

}  // namespace

std::string identity_of(const Request& request, const std::vector<std::string>& client_headers) {
  return values_of(request, client_headers);
}

std::string fingerprint_of(const Request& request, const std::vector<std::string>& client_headers) {
  std::string fingerprint = request_fingerprint(request.method, request.uri, request.body);
  if (client_headers.empty() || !identity_of(request, client_headers).empty()) return fingerprint;
  const std::string login = values_of(request, kLogins);
  if (!login.empty()) fingerprint += Sha256().add(login).finish();
  return fingerprint;
}

}  // namespace dovetail::http
