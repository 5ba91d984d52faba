#include "nats/jetstream.h"

#include <algorithm>

#include "host/host.h"

namespace dovetail::nats {

std::string api_prefix(const std::string& domain) {
  return domain.empty() ? "$JS.API." : "$JS." + domain + ".API.";
}

const char* why_no_jetstream(int error_number) {
  if (error_number == kNotEnabled)
    return "the NATS server runs without JetStream; start it with JetStream, or set jetstream = "
           "false for fire-and-forget";
  if (error_number == kNotEnabledForAccount)
    return "JetStream is not enabled for this account; enable it, check the user, or set "
           "jetstream = false for fire-and-forget";
  return nullptr;
}

JetStream::JetStream(Connection& connection, const std::string& domain, Duration timeout)
    : connection_(connection), prefix_(api_prefix(domain)), timeout_(timeout) {}

Result<Answer> JetStream::ask(std::string_view what, std::string_view body,
                              const Connection::Handler& others) {
  const std::string subject = prefix_ + std::string(what);
  const std::string reply = connection_.inbox() + "api" + std::to_string(++asked_);
  connection_.publish(subject, reply, body);
  Answer answer;
  bool has_come = false;
  std::string refusal;
  const Connection::Handler handler = [&](const Frame& frame) {
    if (frame.kind == Frame::Kind::error) {
      std::string name;
      if (quoted_name(frame.text, name) && name == subject)
        refusal = frame.text;
      else
        others(frame);
      return;
    }
    if (frame.subject != reply) return others(frame);
    has_come = true;
    HeaderBlock block;
    if (!frame.headers.empty() && parse_headers(frame.headers, block) && block.status == 503)
      refusal = "no server answers";
    answer.text = frame.payload;
  };
  const TimePoint end = system_clock().now() + timeout_;
  while (!has_come && refusal.empty()) {
    const Duration left = end - system_clock().now();
    if (left <= Duration{0})
      return fail(Errc::unavailable, "JetStream did not answer the request " + subject +
                                         " in time; check the server's log and load");
    DOVETAIL_TRY(connection_.pump(left, handler));
  }
  if (!refusal.empty())
    return fail(Errc::unavailable,
                "the JetStream request " + subject + " failed: " + refusal +
                    "; check that JetStream is enabled, and the user's permissions");
  if (const char* why = why_no_jetstream(answer.error_number()); why != nullptr)
    return fail(Errc::unavailable, why);
  return answer;
}

Result<Answer> JetStream::require(std::string_view what, std::string_view body,
                                  const Connection::Handler& others) {
  Result<Answer> answer = ask(what, body, others);
  if (answer && answer->error_number() != 0)
    return fail(Errc::unavailable, "JetStream refused " + std::string(what) + ": " +
                                       answer->error_text() + " (" +
                                       std::to_string(answer->error_number()) +
                                       "); check the settings of stream and consumer");
  return answer;
}

Result<std::vector<std::string>> JetStream::streams_of(std::string_view subject) {
  const Result<Answer> answer = require("STREAM.NAMES", "{\"subject\":" + json_text(subject) + "}");
  if (!answer) return fail(answer.error());
  std::vector<std::string> names;
  for (const Json& name : answer->json().get("streams").items()) names.push_back(name.text());
  return names;
}

}  // namespace dovetail::nats
