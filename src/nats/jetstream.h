// JetStream's own requests: which streams and consumers there are, and what they are like.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "dovetail/result.h"
#include "nats/connection.h"
#include "nats/json.h"

namespace dovetail::nats {

// Numbers of errors of JetStream that we do something about.
inline constexpr int kStreamNotFound = 10059;
inline constexpr int kConsumerNotFound = 10014;
inline constexpr int kNotEnabled = 10076;
inline constexpr int kNotEnabledForAccount = 10039;

// An answer, which may be an error of JetStream.
struct Answer {
  std::string text{};
  Json json() const { return Json::parse(text); }
  int error_number() const {  // 0: none
    return static_cast<int>(json().get("error").get("err_code").number_or(0));
  }
  std::string error_text() const { return json().get("error").get("description").text(); }
};

// Does not own the connection, which must outlive it. Waits for each answer.
class JetStream {
 public:
  JetStream(Connection& connection, const std::string& domain, Duration timeout);

  // "$JS.API." or that of the domain.
  const std::string& prefix() const { return prefix_; }

  // `what` follows the prefix. What else comes meanwhile goes to `others`. unavailable: no answer,
  // or JetStream is not there; errors of JetStream about the request itself are answers.
  Result<Answer> ask(
      std::string_view what, std::string_view body = {},
      const Connection::Handler& others = [](const Frame&) {});
  // The same, and an error that is an answer becomes one of ours.
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

// "$JS.API." or that of the domain.
std::string api_prefix(const std::string& domain);

// Why JetStream cannot be used at all, if that is what the error number says; else null.
const char* why_no_jetstream(int error_number);

}  // namespace dovetail::nats
