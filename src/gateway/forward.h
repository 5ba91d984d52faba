// Passes a request on to a service and takes its answer whole. Header fields of the connection stay
// behind; everything else goes through as it came, in both directions.
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
  std::string url;        // "http://127.0.0.1:8000"; a path of it comes before that of requests
  std::string ca_file{};  // empty: what the system trusts
  std::string cert_file{};
  std::string key_file{};
  bool came_by_https = false;
  Duration connect_timeout = std::chrono::seconds(5);
  Duration timeout = std::chrono::seconds(30);  // for all of it
  std::size_t response_bytes_max = 1 << 20;     // of its body; its headers have 64 KiB
};
// rejected: the url is none that requests can be sent to.
Status check(const ForwardOptions& options);

// A request as it came. Nothing is copied.
struct ForwardRequest {
  std::string_view method;
  std::string_view uri;  // path and query
  const std::vector<MessageHeader>* headers = nullptr;
  std::string_view body{};
  std::string_view peer{};  // who sent it
  // Whether `peer` may say whom it speaks for. Anybody else could say anything.
  bool is_from_proxy = false;
};

struct ForwardAnswer {
  enum class Fate : std::uint8_t {
    answered,
    not_sent,   // the service cannot have seen it
    lost,       // it may have, and nobody knows what it did
    too_large,  // it has answered, with `status`, and more than is kept
  };
  Fate fate = Fate::lost;
  int status = 0;
  std::vector<Header> headers{};
  std::string body{};
  std::optional<std::uint64_t> length{};  // as it said
  bool timed_out = false;
  std::string why{};  // where it was not answered; ends with what to check
};

// One thread at a time, but for `aborted`. Blocks for the time limit at most.
class Forwarder {
 public:
  // `aborted`: ends what is under way.
  Forwarder(const ForwardOptions& options, const std::atomic<bool>& aborted);
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;
  ~Forwarder();

  ForwardAnswer forward(const ForwardRequest& request);

 private:
  struct Transfer;
  std::unique_ptr<Transfer> transfer_;
};

// Fields that belong to one connection (RFC 9110, 7.6.1), and those that either side of us writes
// anew. `connection`: the values of the field Connection, which names more.
bool is_of_connection(std::string_view lower_name, const std::vector<std::string>& connection);

// Fields in which a proxy says whom it speaks for. '_' counts as '-', which many services take for
// the same.
bool is_about_client(std::string_view lower_name);

// Methods that may reach a service twice without harm.
bool is_idempotent_method(std::string_view method);
bool is_safe_method(std::string_view method);

// Header fields as lines "name: value", and back, byte for byte. The lines are UTF-8, as databases
// want it, whatever the fields are: each byte of theirs is the character that Latin-1 has for it.
std::string to_lines(const std::vector<Header>& headers);
std::vector<Header> from_lines(std::string_view text);

}  // namespace dovetail::http
