// The options of a gateway.
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
  std::string name = "gateway";  // the scope of keys; several gateways of a service share it
  EndpointOptions endpoint{.waiting_max = 1024};
  ForwardOptions service{};
  std::vector<std::string> methods{"POST", "PATCH"};  // methods with keys; others pass through
  bool key_required = true;
  bool quoted_only = false;  // refuses bare keys, which the draft does not allow
  // These headers name the client; each client has its own keys. If a request has none of them, a
  // repeat with another login than the first request gets no answer.
  std::vector<std::string> client_headers{"authorization"};
  // Addresses and networks of proxies. What they say about their clients is passed on, and they may
  // open more connections than one client.
  std::vector<std::string> trusted_proxies{};
  Duration keep = std::chrono::hours(24);  // of an answer, from its first request on
  bool retry_unknown = false;              // sends a request with an unknown outcome again
  // Answers that mean "nothing was done": they are passed on, and the next request runs.
  std::vector<int> released_statuses{401, 407, 408, 421, 425, 429, 503};
  Duration store_patience = std::chrono::seconds(5);   // for clients of an unavailable store
  Duration place_patience = std::chrono::seconds(10);  // the wait for a place at the service
  // How long a request belongs to a gateway that has died. Zero: the longest time of a request,
  // plus half a minute.
  Duration lease{0};
  // Performance
  std::size_t requests_max = 64;  // at the service at a time; each has a thread
  std::size_t connections = 4;    // to the store
};
// rejected: a setting is wrong; the text names it.
Status check(const GatewayOptions& options);
// The longest time of a request, waiting and at the service.
Duration longest(const GatewayOptions& options);

}  // namespace dovetail::http
