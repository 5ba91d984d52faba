// Options for sending events to an HTTP endpoint and for receiving them at one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/message/message.h"

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

struct SourceOptions {
  // Behaviour
  std::string address = "127.0.0.1";  // only loopback, unless there is a token or secret
  std::uint16_t port = 0;             // 0: any free port
  std::string path = "/events";       // the rest of a request's path is the event's topic
  ForeignNames foreign{};
  std::string token{};    // "Authorization: Bearer ..."; empty: not required
  std::string secrets{};  // of Standard Webhooks; empty: signatures are not checked
  Duration signature_age_max = std::chrono::minutes(5);  // also the limit into the future
  std::string cert_file{};                               // needs key_file; then it serves HTTPS
  std::string key_file{};
  std::size_t payload_bytes_max = 1 << 20;
  // A request that is not settled in this time gets 503. Keep it below the sender's limit.
  Duration answer_timeout = std::chrono::seconds(25);
  Duration head_timeout = std::chrono::seconds(10);     // for the whole head
  Duration receive_timeout = std::chrono::seconds(30);  // for the body and for reading the answer
  // Performance
  std::size_t connections_per_client_max = 0;  // 0: three quarters of all
  std::size_t waiting_max = 500;               // requests not settled
  std::size_t waiting_bytes_max = 64 << 20;    // their total size
  std::size_t header_bytes_max = 32 << 10;     // of one request
};

}  // namespace dovetail::http
