// The claims of a consumer in its PostgreSQL database, for handlers outside the transaction.
#pragma once

#include <string>
#include <vector>

#include "core/inbox/claims.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

class PostgresClaimStore final : public ClaimStore {
 public:
  // `consumer`: of the inbox rows, "mail" or "mail.welcome".
  PostgresClaimStore(std::string conninfo, std::string consumer)
      : conninfo_(std::move(conninfo)), consumer_(std::move(consumer)) {}

  Status open() override;
  Result<std::vector<Claim>> claim(Events events, Duration lease) override;
  Status complete(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                  std::span<bool> done) override;
  Status release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                 ReleaseReason how) override;

 private:
  std::string conninfo_;
  std::string consumer_;
  Connection connection_{};
};

}  // namespace dovetail::postgres
