// The right to run one lane, as a row in the database.
#pragma once

#include <string>
#include <string_view>

#include "core/lease.h"
#include "postgres/reader.h"

namespace dovetail::postgres {

// The database's clock says when the lease ends for others; our own clock, from before we asked,
// says when it ends for us, a tenth of the term earlier. One whose owner is provably gone (see
// host/owner.h) is taken at once.
class PostgresLease final : public Lease {
 public:
  // `owner` is for people; every lease adds a part of its own, so that two with one name are told
  // apart.
  PostgresLease(Reader& reader, Clock& clock, std::string owner, Duration term);

  Status acquire() override;
  Status renew() override;
  Status release() override;
  TimePoint deadline() const override { return deadline_; }
  TimePoint renew_at() const override { return renew_at_; }

  const std::string& owner() const { return owner_; }

 private:
  Result<bool> take(std::string_view gone);
  void hold_from(TimePoint asked_at);

  Reader& reader_;
  Clock& clock_;
  std::string owner_;
  Duration term_;
  TimePoint deadline_{};
  TimePoint renew_at_{};
};

}  // namespace dovetail::postgres
