// The lease of a reader, kept in its row.
#pragma once

#include <string>

#include "core/relay/lease.h"
#include "sqlite/connection/database.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// Expiry is counted in boot time beside the boot's id: a step of the wall clock changes nothing,
// and a lease of an earlier boot is dead. So is one whose owner is provably gone (see
// host/owner.h). All relays of a file run on one machine, as SQLite asks.
class SqliteLease final : public Lease {
 public:
  // `label` names the owner to people, such as "host:pid"; two leases never count as the same
  // owner.
  SqliteLease(Reader& reader, Clock& clock, const std::string& label, std::string boot,
              Duration term = std::chrono::seconds(10));

  Status acquire() override;
  Status renew() override;
  Status release() override;
  TimePoint deadline() const override;
  TimePoint renew_at() const override;

 private:
  Status connect();
  Status write_expiry(TimePoint asked_at);

  Reader& reader_;
  Clock& clock_;
  std::string owner_;
  std::string boot_;
  Duration term_;
  TimePoint asked_at_{};
  Database database_;
};

}  // namespace dovetail::sqlite
