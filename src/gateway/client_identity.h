// How the gateway tells clients apart.
#pragma once

#include <string>
#include <vector>

#include "server/endpoint.h"

namespace dovetail::http {

// The client's values of these headers. Empty: it sent none of them.
std::string identity_of(const Request& request, const std::vector<std::string>& client_headers);

// What a repeated request must share with the first: method, target and body. If the headers do not
// name the client, also its login: another client then learns that the key is taken and sees no
// answer. The login is not part of the key's scope, because cookies may change between two tries,
// and the second try must not run. Without any of these headers, clients are not told apart.
std::string fingerprint_of(const Request& request, const std::vector<std::string>& client_headers);

}  // namespace dovetail::http
