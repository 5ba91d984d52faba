// HTTP requests that are applied once, in a PostgreSQL database.
#pragma once

#include <string>
#include <vector>

#include "core/inbox/request.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// A server that does not answer costs `limit` for each connection and each statement.
class PostgresRequestStore final : public RequestStore {
 public:
  explicit PostgresRequestStore(std::string conninfo, Duration limit = kConnectMax)
      : conninfo_(std::move(conninfo)), limit_(limit) {}

  Status open() override;
  Result<RequestTicket> begin(const RequestKey& request, const RequestTerms& terms,
                              const EventId& token) override;
  Result<bool> finish(const RequestKey& request, const EventId& token,
                      const StoredResponse& response) override;
  Result<bool> release(const RequestKey& request, const EventId& token) override;
  Result<bool> abandon(const RequestKey& request, const EventId& token) override;

 private:
  Result<bool> ask(std::string_view sql, const Params& params);

  std::string conninfo_;
  Duration limit_;
  Connection connection_;
};

// For operators. Each opens a connection of its own.
Result<std::vector<RequestInfo>> list_requests(const std::string& conninfo,
                                               const RequestFilter& filter);
// False: there is none, or it runs.
// Deletes requests that have expired, the oldest first, and returns how many.
Result<std::uint64_t> prune_requests(const std::string& conninfo, std::size_t rows_max);
Result<bool> forget_request(const std::string& conninfo, const RequestKey& request,
                            std::string_view reason);

}  // namespace dovetail::postgres
