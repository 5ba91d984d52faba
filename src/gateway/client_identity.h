// Who sent a request, as the gateway tells clients apart.
#pragma once

#include <string>
#include <vector>

#include "server/endpoint.h"

namespace dovetail::http {

// What the client is known by: its values of these headers. Empty: it sent none of them.
std::string identity_of(const Request& request, const std::vector<std::string>& client_headers);

// What a repeat must have in common with the first request: method, target and body. Where the
// client is not known by its headers, also its login: another one is told that the key is taken,
// and sees no answer. A login is no part of whose key it is, because cookies change between two
// tries, and the second one must not run. With no headers at all clients are not told apart.
std::string fingerprint_of(const Request& request, const std::vector<std::string>& client_headers);

}  // namespace dovetail::http
