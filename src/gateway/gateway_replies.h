// The gateway's own answers, and conversions between answers of store and endpoint.
#pragma once

#include <string>
#include <string_view>

#include "dovetail/idempotency.h"
#include "server/endpoint.h"

namespace dovetail::http {

// `type`: the last part of its URN.
Problem problem(int status, std::string_view type, std::string title, std::string detail,
                int retry_after_s = 0);
Problem stopping();
Problem store_unavailable();

Reply reply_of(const Problem& problem);
Reply reply_of(StoredResponse response, bool is_replay);
StoredResponse stored(const Problem& problem);

}  // namespace dovetail::http
