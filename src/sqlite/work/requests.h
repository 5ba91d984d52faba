// HTTP requests that run once, in a SQLite file.
#pragma once

#include <string>
#include <vector>

#include "core/clock.h"
#include "sql/requests.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

class SqliteRequestStore final : public SqlRequestStore {
 public:
  // `boot`: the id of this boot, because leases count in boot time.
  SqliteRequestStore(std::string path, Clock& clock, std::string boot);
};

const RequestStatements& request_statements();

// For operators. Each call opens the file itself.
Result<std::vector<RequestInfo>> list_requests(const std::string& path, const RequestFilter& filter,
                                               Clock& clock, const std::string& boot);
// False: it does not exist, or it is running. rejected: no reason, which a file does not record.
Result<bool> forget_request(const std::string& path, const RequestKey& request,
                            std::string_view reason, Clock& clock, const std::string& boot);
// Deletes expired requests, the oldest first; returns how many.
Result<std::uint64_t> prune_requests(const std::string& path, std::size_t rows_max, Clock& clock,
                                     const std::string& boot);

}  // namespace dovetail::sqlite
