// HTTP requests that are applied once, in a PostgreSQL database.
#pragma once

#include <string>
#include <vector>

#include "postgres/connection/connection.h"
#include "sql/requests.h"

namespace dovetail::postgres {

// A server that does not answer costs `limit` for each connection and each statement.
class PostgresRequestStore final : public SqlRequestStore {
 public:
  explicit PostgresRequestStore(std::string conninfo, Duration limit = kConnectMax);
};

const RequestStatements& request_statements();

// For operators. Each opens a connection of its own.
Result<std::vector<RequestInfo>> list_requests(const std::string& conninfo,
                                               const RequestFilter& filter);
// Deletes requests that have expired, the oldest first, and returns how many.
Result<std::uint64_t> prune_requests(const std::string& conninfo, std::size_t rows_max);
// Whether a gateway can keep its requests here. rejected: a right is missing.
Status check_requests(const std::string& conninfo);
// False: the request does not exist, or it is running.
Result<bool> forget_request(const std::string& conninfo, const RequestKey& request,
                            std::string_view reason);

}  // namespace dovetail::postgres
