// HTTP requests that run once, in a SQLite file.
#pragma once

#include <string>
#include <vector>

#include "core/clock.h"
#include "core/inbox/request.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

class SqliteRequestStore final : public RequestStore {
 public:
  // `boot`: the id of this boot, because leases count in boot time.
  SqliteRequestStore(std::string path, Clock& clock, std::string boot);

  Status open() override;
  Result<RequestTicket> begin(const RequestKey& request, const RequestTerms& terms,
                              const EventId& token) override;
  Result<bool> finish(const RequestKey& request, const EventId& token,
                      const StoredResponse& response) override;
  Result<bool> release(const RequestKey& request, const EventId& token) override;
  Result<bool> abandon(const RequestKey& request, const EventId& token) override;

 private:
  std::string path_;
  Clock& clock_;
  std::string boot_;
  Database database_;
  std::string file_;
  Checkpointer checkpointer_;
};

// For operators. Each call opens the file itself.
Result<std::vector<RequestInfo>> list_requests(const std::string& path, const RequestFilter& filter,
                                               Clock& clock, const std::string& boot);
// False: it does not exist, or it is running.
Result<bool> forget_request(const std::string& path, const RequestKey& request, Clock& clock,
                            const std::string& boot);
// Deletes expired requests, the oldest first; returns how many.
Result<std::uint64_t> prune_requests(const std::string& path, std::size_t rows_max, Clock& clock,
                                     const std::string& boot);
Result<std::uint64_t> prune_requests(sqlite3* connection, std::size_t rows_max, Clock& clock,
                                     const std::string& boot);

}  // namespace dovetail::sqlite
