// The right to run one lane, as a row in the database.
#pragma once

#include <string>
#include <string_view>

#include "core/relay/lease.h"
#include "postgres/lane/reader.h"

namespace dovetail::postgres {

// Who holds a lane, as one sees him who waits for it.
struct Holder {
  std::string owner{};       // empty: nobody
  bool has_run_out = false;  // by the database's clock
  Duration term{};           // of whichever of the two is longer
  std::chrono::seconds left{};
  std::string sign{};  // for LeaseWatch
};
// Whether the row `r` of dovetail.reader is held, for people: by the database's clock, and not when
// it ends later than its term allows. Then that clock was set back, and a living holder renews
// soon.
inline constexpr std::string_view kIsHeld =
    "(r.owner <> '' AND r.expires > pg_catalog.clock_timestamp() AND (r.lease_term = 0 OR "
    "r.expires <= pg_catalog.clock_timestamp() + (r.lease_term + r.lease_term / 10) * interval "
    "'1 microsecond'))";
// Columns of dovetail.reader, and what they say from `column` on. `term`: of the one who waits.
extern const std::string kHolderColumns;
Holder holder_in(const Rows& rows, std::size_t row, int column, Duration term);

// Others take it when it was not renewed for a term, see LeaseWatch; our own clock, from before we
// asked, says when it ends for us, a tenth of the term earlier. One whose owner is provably gone
// (see host/owner.h) is taken at once.
class PostgresLease final : public Lease {
 public:
  // `owner` is for people; every lease adds a part of its own, so that two with one name are told
  // apart.
  // `watch`: what was seen of its holder before.
  PostgresLease(Reader& reader, Clock& clock, const std::string& owner, Duration term,
                LeaseWatch watch = {});

  Status acquire() override;
  Status renew() override;
  Status release() override;
  TimePoint deadline() const override { return deadline_; }
  TimePoint renew_at() const override { return renew_at_; }

  const std::string& owner() const { return owner_; }

 private:
  Result<bool> take(std::string_view sign);
  void hold_from(TimePoint asked_at);

  Reader& reader_;
  Clock& clock_;
  std::string owner_;
  Duration term_;
  LeaseWatch watch_;
  TimePoint deadline_{};
  TimePoint renew_at_{};
};

}  // namespace dovetail::postgres
