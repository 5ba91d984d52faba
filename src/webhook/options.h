// Options for sending events to an HTTP endpoint and for receiving them at one.
#pragma once

#include <cstddef>
#include <string>

#include "core/clock.h"
#include "core/message/message.h"
#include "dovetail/http.h"

namespace dovetail::http {

struct SinkOptions {
  // Behaviour
  std::string url;  // "https://host/path"; {fields} of the event may follow the host
  MessageOptions message{};
  std::string user{};      // with a password: basic authentication
  std::string password{};  // without a user: a bearer token
  std::string secrets{};   // of Standard Webhooks: "whsec_...", separated by spaces
  std::string ca_file{};   // empty: the system's certificate authorities
  std::string cert_file{};
  std::string key_file{};
  bool allow_private = false;  // false: connects to public addresses only
  std::size_t payload_bytes_max = 64 << 20;
  Duration connect_timeout = std::chrono::seconds(5);
  // Must be below the relay's confirm_timeout, or the relay gives up first.
  Duration request_timeout = std::chrono::seconds(15);
  Duration retry_after_max = std::chrono::minutes(5);  // a longer Retry-After is cut to this
  // Performance
  std::size_t requests_in_flight_max = 32;
  std::size_t response_bytes_max = 64 << 10;  // read of an answer; its body is not used
};

// The application's options, and what it need not know. Here port 0 means any free port.
struct SourceOptions : ReadOptions {
  Duration head_timeout = std::chrono::seconds(10);     // for the whole head
  Duration receive_timeout = std::chrono::seconds(30);  // for the body and for reading the answer
  // Performance
  std::size_t connections_per_client_max = 0;  // 0: three quarters of all
  std::size_t header_bytes_max = 32 << 10;     // of one request
};

}  // namespace dovetail::http
