// The claims of a consumer in its SQLite file.
#pragma once

#include <string>
#include <vector>

#include "core/inbox/claims.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// Leases count in boot time: `clock` gives it, and `boot` names the boot. A lease of an earlier
// boot is over.
class SqliteClaimStore final : public ClaimStore {
 public:
  SqliteClaimStore(std::string path, std::string consumer, Clock& clock, std::string boot);

  Status open() override;
  Result<std::vector<Claim>> claim(Events events, Duration lease) override;
  Status complete(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                  std::span<bool> done) override;
  Status release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                 ReleaseReason how) override;

 private:
  Status prepare();
  Status find_consumer();
  Result<Claim> claim_one(const Event& event, Duration lease, WallTime forgotten);
  Result<bool> complete_one(const EventId& id, std::int64_t epoch);
  Status release_one(const EventId& id, std::int64_t epoch, ReleaseReason how);
  Status add_totals(std::uint64_t applied, std::uint64_t duplicates);
  Result<Transaction> begin(std::string_view doing);
  Status commit(Transaction& transaction, std::string_view doing);

  std::string path_;
  std::string consumer_;
  Clock& clock_;
  std::string boot_;
  std::int64_t consumer_id_ = 0;
  Checkpointer checkpointer_;
  std::string file_;
  Database database_;
  Statement find_;
  Statement next_epoch_;
  Statement put_;
  Statement take_;
  Statement insert_;
  Statement note_unapplied_;
  Statement give_back_;
  Statement erase_;
  Statement totals_;
};

}  // namespace dovetail::sqlite
