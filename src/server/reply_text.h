// An answer as bytes of HTTP/1.1.
#pragma once

#include <string>

#include "core/clock.h"
#include "server/endpoint.h"

namespace dovetail::http {

struct ReplyForm {
  bool is_head = false;  // the request was HEAD: the answer has no body
  bool closes = false;
  WallTime now{};
};

// Headers that could not be told from two, and those that say where the answer ends, are left out.
std::string reply_bytes(const Reply& reply, const ReplyForm& form);

}  // namespace dovetail::http
