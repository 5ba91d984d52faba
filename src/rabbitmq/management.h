// The HTTP API of RabbitMQ's management plugin: it shows what AMQP does not, such as policies.
#pragma once

#include <string>
#include <string_view>

#include "core/message/json.h"
#include "dovetail/result.h"
#include "rabbitmq/options.h"

namespace dovetail::rabbitmq {

struct HttpAnswer {
  int status = 0;
  std::string body{};
};

// All that a server said until it closed the connection. unavailable: this is no answer.
Result<HttpAnswer> parse_answer(std::string_view bytes);

// One request to options.management_url with the user and password of `options`; `path` begins
// after "/api/". Waits at most request_timeout. unavailable: no answer. rejected: the url is wrong.
Result<HttpAnswer> request(const Options& options, std::string_view method, std::string_view path,
                           std::string_view body = {});

// Absent if it does not exist. unavailable: no answer, or the user may not ask.
Result<Json> look_up(const Options& options, std::string_view path);

// `text` as one path segment.
std::string percent_encoded(std::string_view text);

}  // namespace dovetail::rabbitmq
