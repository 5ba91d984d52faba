// An answer as bytes of HTTP/1.1.
#pragma once

#include <string>

#include "core/clock.h"
#include "server/endpoint.h"

namespace dovetail::http {

struct ReplyForm {
  bool is_head = false;  // answers HEAD: without a body
  bool closes = false;
  WallTime now{};
};

// Leaves out headers that a reader could split in two, and those that frame the answer.
std::string reply_bytes(const Reply& reply, const ReplyForm& form);

}  // namespace dovetail::http
