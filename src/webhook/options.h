// What can be chosen about sending events to an HTTP endpoint, and about taking them at one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/message/message.h"

namespace dovetail::http {

struct SinkOptions {
  // Behaviour
  std::string url;  // "https://host/path"; {fields} of the event may stand behind the host
  MessageOptions message{};
  std::string user{};      // with password: basic authentication
  std::string password{};  // alone: a bearer token
  std::string secrets{};   // of Standard Webhooks, "whsec_...", several apart by spaces
  std::string ca_file{};   // empty: what the system trusts
  std::string cert_file{};
  std::string key_file{};
  bool allow_private = false;  // else only addresses of the public internet are connected to
  std::size_t payload_bytes_max = 64 << 20;
  Duration connect_timeout = std::chrono::seconds(5);
  // Below the relay's confirm_timeout, or the relay gives up first.
  Duration request_timeout = std::chrono::seconds(15);
  Duration retry_after_max = std::chrono::minutes(5);  // a longer wish is cut to this
  // Performance
  std::size_t requests_in_flight_max = 32;
  std::size_t response_bytes_max = 64 << 10;  // read of an answer's body, which nobody looks at
};

struct SourceOptions {
  // Behaviour
  std::string address = "127.0.0.1";  // another than loopback only with a token or secrets
  std::uint16_t port = 0;             // 0: any that is free
  std::string path = "/events";       // what follows it in a request is the event's topic
  ForeignNames foreign{};
  std::string token{};    // "Authorization: Bearer ..."; empty: not asked for
  std::string secrets{};  // of Standard Webhooks; empty: signatures are not looked at
  Duration signature_age_max = std::chrono::minutes(5);  // and as far in the future
  std::string cert_file{};                               // with key_file: HTTPS
  std::string key_file{};
  std::size_t payload_bytes_max = 1 << 20;
  // A request that is not settled for so long is answered 503. Below the sender's own limit.
  Duration answer_timeout = std::chrono::seconds(25);
  Duration head_timeout = std::chrono::seconds(10);     // for all of a request's head
  Duration receive_timeout = std::chrono::seconds(30);  // for its body, and for taking the answer
  // Performance
  std::size_t connections_per_client_max = 0;  // 0: three quarters of all
  std::size_t waiting_max = 500;               // requests that are not settled
  std::size_t waiting_bytes_max = 64 << 20;    // what they hold together
  std::size_t header_bytes_max = 32 << 10;     // of one request
};

}  // namespace dovetail::http
