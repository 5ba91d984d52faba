// What can be chosen about a gateway.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/clock.h"
#include "dovetail/result.h"
#include "gateway/forward.h"
#include "server/endpoint.h"

namespace dovetail::http {

struct GatewayOptions {
  // Behaviour
  std::string name = "gateway";  // whose keys they are; several gateways of a service share it
  EndpointOptions endpoint{.waiting_max = 1024};
  ForwardOptions service{};
  std::vector<std::string> methods{"POST", "PATCH"};  // that have keys; others only pass through
  bool key_required = true;
  bool quoted_only = false;  // keys as the draft writes them, and no bare ones
  // What a client is known by: keys of one are not those of another. Where a request has none of
  // them, another login than that of the first request with the key gets no answer.
  std::vector<std::string> client_headers{"authorization"};
  // Addresses and networks of those that speak for others: what they say about their clients is
  // passed on, and their connections are not counted as one client's.
  std::vector<std::string> trusted_proxies{};
  Duration keep = std::chrono::hours(24);  // an answer, from its first request
  bool retry_unknown = false;              // sends a request whose outcome nobody knows once more
  // Answers that say that nothing was done: they are passed on, and the next request runs.
  std::vector<int> released_statuses{401, 407, 408, 421, 425, 429, 503};
  Duration store_patience = std::chrono::seconds(5);   // before a client is told that it is away
  Duration place_patience = std::chrono::seconds(10);  // to wait for a place at the service
  // How long a request belongs to a gateway that has died. Zero: what it can take, and half a
  // minute.
  Duration lease{0};
  // Performance
  std::size_t requests_max = 64;  // at the service at once; each has a thread
  std::size_t connections = 4;    // to the store
};
// rejected: the text names the setting.
Status check(const GatewayOptions& options);
// The longest that a request can take, before and at the service.
Duration longest(const GatewayOptions& options);

}  // namespace dovetail::http
