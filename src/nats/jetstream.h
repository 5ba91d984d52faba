// The JetStream API: finds streams and consumers, and reads their settings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/message/json.h"
#include "dovetail/result.h"
#include "nats/connection.h"

namespace dovetail::nats {

// JetStream error numbers that we act on.
inline constexpr int kStreamNotFound = 10059;
inline constexpr int kConsumerNotFound = 10014;
inline constexpr int kNotEnabled = 10076;
inline constexpr int kNotEnabledForAccount = 10039;

// The header by which a stream knows repeats.
inline constexpr std::string_view kIdHeader = "Nats-Msg-Id";

// An answer; it may be an error.
struct Answer {
  std::string text{};
  Json json() const { return Json::parse(text); }
  int error_number() const {  // 0: no error
    return static_cast<int>(json().get("error").get("err_code").number_or(0));
  }
  std::string error_text() const { return json().get("error").get("description").text(); }
};

// Uses a connection that must outlive it. Each request waits for its answer.
class JetStream {
 public:
  JetStream(Connection& connection, const std::string& domain, Duration timeout);

  // "$JS.API.", or that of the domain.
  const std::string& prefix() const { return prefix_; }

  // `what` follows the prefix. Other frames go to `others`. unavailable: no answer, or no
  // JetStream. An error about the request itself is an answer.
  Result<Answer> ask(
      std::string_view what, std::string_view body = {},
      const Connection::Handler& others = [](const Frame&) {});
  // The same, but an error in the answer becomes an error of the call.
  Result<Answer> require(
      std::string_view what, std::string_view body = {},
      const Connection::Handler& others = [](const Frame&) {});

  // The streams that take `subject`, which may have wildcards.
  Result<std::vector<std::string>> streams_of(std::string_view subject);

 private:
  Connection& connection_;
  std::string prefix_;
  Duration timeout_;
  std::uint64_t asked_ = 0;
};

// "$JS.API.", or that of the domain.
std::string api_prefix(const std::string& domain);

// Why JetStream cannot be used at all, if the error number says so; else null.
const char* why_no_jetstream(int error_number);

}  // namespace dovetail::nats
