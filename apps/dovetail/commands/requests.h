// Stores of HTTP requests, whatever database they are in.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "core/inbox/request.h"
#include "dovetail/result.h"

namespace dovetail::app {

// REQUIRES: the store is a database, and was prepared.
// `limit`: how long a server may take to answer.
std::unique_ptr<RequestStore> make_request_store(const config::StoreConfig& store, Duration limit);
Result<std::vector<RequestInfo>> list_requests(const config::StoreConfig& store,
                                               const RequestFilter& filter);
// False: there is none, or it runs.
Result<bool> forget_request(const config::StoreConfig& store, const RequestKey& request,
                            std::string_view reason);
// Deletes what has expired, the oldest first, and returns how many.
Result<std::uint64_t> prune_requests(const config::StoreConfig& store, std::size_t rows_max);

}  // namespace dovetail::app
