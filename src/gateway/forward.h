// Forwards a request to the service and reads the whole answer. Header fields of the connection are
// left out; everything else passes unchanged in both directions.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/message/message.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail::http {

struct ForwardOptions {
  std::string url;        // "http://127.0.0.1:8000"; its path comes before that of requests
  std::string ca_file{};  // empty: the system's certificate authorities
  std::string cert_file{};
  std::string key_file{};
  bool came_by_https = false;
  Duration connect_timeout = std::chrono::seconds(5);
  Duration timeout = std::chrono::seconds(30);  // for the whole exchange
  std::size_t response_bytes_max = 1 << 20;     // limit of the body; headers have 64 KiB
};
// rejected: requests cannot be sent to this url.
Status check(const ForwardOptions& options);

// A request as received. Nothing is copied.
struct ForwardRequest {
  std::string_view method;
  std::string_view uri;  // path and query
  const std::vector<MessageHeader>* headers = nullptr;
  std::string_view body{};
  std::string_view peer{};  // who sent it
  // Whether to trust what `peer` says about its client. Any other peer could lie.
  bool is_from_proxy = false;
};

struct ForwardAnswer {
  enum class Fate : std::uint8_t {
    answered,
    not_sent,   // the service cannot have seen it
    lost,       // the service may have seen it; the outcome is unknown
    too_large,  // the service answered with `status`, and the answer is too large to keep
  };
  Fate fate = Fate::lost;
  int status = 0;
  std::vector<Header> headers{};
  std::string body{};
  std::optional<std::uint64_t> length{};  // as the service said
  bool timed_out = false;
  std::string why{};  // if there was no answer; ends with what to check
};

// One thread at a time, except `aborted`. Blocks for at most the time limit.
class Forwarder {
 public:
  // `aborted`: set it to end a running request.
  Forwarder(const ForwardOptions& options, const std::atomic<bool>& aborted);
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;
  ~Forwarder();

  ForwardAnswer forward(const ForwardRequest& request);

 private:
  struct Transfer;
  std::unique_ptr<Transfer> transfer_;
};

// Fields in which a proxy names its client. '_' counts as '-', because many services treat them
// alike.
bool is_about_client(std::string_view lower_name);

// Methods that are harmless if a service gets them twice.
bool is_idempotent_method(std::string_view method);
bool is_safe_method(std::string_view method);

// Header fields as lines "name: value", and back, byte for byte. The lines are UTF-8, as databases
// require: each byte becomes the character that it is in Latin-1.
std::string to_lines(const std::vector<Header>& headers);
std::vector<Header> from_lines(std::string_view text);

}  // namespace dovetail::http
