#include "gateway/gateway_replies.h"

#include <utility>

#include "gateway/forward.h"

namespace dovetail::http {

namespace {

constexpr std::string_view kTypes = "urn:dovetail:gateway:";

}  // namespace

Problem problem(int status, std::string_view type, std::string title, std::string detail,
                int retry_after_s) {
  return {status, std::string(kTypes) + std::string(type), std::move(title), std::move(detail),
          retry_after_s};
}

Problem stopping() {
  return problem(503, "stopping", "The gateway is stopping",
                 "Nothing was done. Send the same request again in a moment.", 1);
}

Problem store_unavailable() {
  return problem(503, "store-unavailable", "The gateway cannot look up keys",
                 "The request was not forwarded, and nothing was done. Send the same request with "
                 "the same key again in a moment.",
                 1);
}

Reply reply_of(const Problem& problem) {
  Reply reply;
  reply.status = static_cast<unsigned>(problem.status);
  reply.retry_after_s = static_cast<unsigned>(problem.retry_after_s);
  reply.headers.push_back({"Content-Type", "application/problem+json"});
  reply.body = problem.to_json();
  return reply;
}

StoredResponse stored(const Problem& problem) {
  return {problem.status, to_lines({{"Content-Type", "application/problem+json"}}),
          problem.to_json()};
}

Reply reply_of(StoredResponse response, bool is_replay) {
  Reply reply;
  reply.status = static_cast<unsigned>(response.status);
  reply.headers = from_lines(response.headers);
  if (is_replay) reply.headers.push_back({"Idempotency-Replayed", "true"});
  reply.body = std::move(response.body);
  return reply;
}

}  // namespace dovetail::http
