// An HTTP endpoint, as for webhooks, as the origin of a consumer's events. A sender gets its answer
// when its event is applied or parked, so it repeats what a crash interrupts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "dovetail/broker.h"
#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::http {

struct ReadOptions {
  std::string address = "127.0.0.1";  // others than loopback need a token or secrets
  std::uint16_t port = 0;             // must be set
  std::string path = "/events";       // the rest of a request's path is the event's topic
  std::string token{};                // "Authorization: Bearer ..."; empty: not required
  // Of Standard Webhooks: "whsec_...", separated by spaces. Empty: signatures are not checked.
  std::string secrets{};
  // How old a signature may be, and how far in the future.
  std::chrono::microseconds signature_age_max = std::chrono::minutes(5);
  std::string cert_file{};  // PEM; needs key_file; then it is HTTPS
  std::string key_file{};   // PEM
  std::size_t payload_bytes_max = 1 << 20;
  // A request whose event is not delivered or parked in this time gets 503. Keep it below the
  // senders' limit.
  std::chrono::microseconds answer_timeout = std::chrono::seconds(25);
  std::size_t waiting_max = 500;             // requests without an answer
  std::size_t waiting_bytes_max = 64 << 20;  // their total size
  ForeignNames foreign{};
};

// Does not listen yet: the consumer that owns the lane does. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::http
