#include "postgres/lane/lease.h"

#include <algorithm>
#include <utility>

#include "host/owner.h"

namespace dovetail::postgres {

namespace {

// In a form that no setting of the session changes: behind a pooler each look may be another's.
constexpr std::string_view kSign = "epoch || ' ' || encode(timestamptz_send(expires), 'hex')";

// Only as it was seen: $5.
const std::string kAcquire =
    "UPDATE dovetail.reader SET owner = $3, epoch = epoch + 1, lease_term = $4, "
    "expires = clock_timestamp() + $4 * interval '1 microsecond' "
    "WHERE relay = $1 AND lane = $2 AND " +
    std::string(kSign) + " = $5 AND ($6 = '' OR target = $6) RETURNING epoch";

constexpr std::string_view kRenew =
    "UPDATE dovetail.reader SET expires = clock_timestamp() + $4 * interval '1 microsecond' "
    "WHERE relay = $1 AND lane = $2 AND epoch = $3";

constexpr std::string_view kRelease =
    "UPDATE dovetail.reader SET owner = '', expires = clock_timestamp() "
    "WHERE relay = $1 AND lane = $2 AND epoch = $3";

}  // namespace

const std::string kHolderColumns =
    "owner, expires <= clock_timestamp(), lease_term, "
    "CASE WHEN expires <= clock_timestamp() THEN 0 "
    "ELSE ceil(extract(epoch FROM expires - clock_timestamp())) END::bigint, " +
    std::string(kSign);

Holder holder_in(const Rows& rows, std::size_t row, int column, Duration term) {
  Holder holder;
  holder.owner = std::string(rows.text(row, column));
  holder.has_run_out = rows.boolean(row, column + 1);
  // A row of an earlier version does not say it.
  holder.term = std::max(term, Duration{rows.int8(row, column + 2)});
  // The database's clock may have been set back, and then its end is far away. Nobody waits so
  // long.
  holder.left = std::min(std::chrono::seconds(rows.int8(row, column + 3)),
                         std::chrono::ceil<std::chrono::seconds>(holder.term + holder.term / 10));
  holder.sign = std::string(rows.text(row, column + 4));
  return holder;
}

PostgresLease::PostgresLease(Reader& reader, Clock& clock, const std::string& owner, Duration term,
                             LeaseWatch watch)
    : reader_(reader),
      clock_(clock),
      owner_(lease_owner(owner)),
      term_(term),
      watch_(std::move(watch)) {}

void PostgresLease::hold_from(TimePoint asked_at) {
  deadline_ = asked_at + term_ - term_ / 10;
  renew_at_ = asked_at + term_ / 3;
}

// True: it is ours. Otherwise the row is not as it was seen.
Result<bool> PostgresLease::take(std::string_view sign) {
  const TimePoint asked_at = clock_.now();
  const Result<Rows> taken =
      reader_.connection.query(kAcquire, Params()
                                             .text(reader_.relay)
                                             .int4(static_cast<std::int32_t>(reader_.lane))
                                             .text(owner_)
                                             .int8(term_.count())
                                             .text(sign)
                                             .text(reader_.target));
  if (!taken) return fail(taken.error());
  if (taken->size() != 1) return false;
  watch_ = {};  // what it sees from here on are our own renewals
  reader_.epoch = taken->int8(0, 0);
  hold_from(asked_at);
  return true;
}

Status PostgresLease::acquire() {
  reader_.epoch = kNoLeaseNow;
  DOVETAIL_TRY(connect(reader_));
  static const std::string select =
      "SELECT " + kHolderColumns + " FROM dovetail.reader WHERE relay = $1 AND lane = $2";
  const Result<Rows> rows = reader_.connection.query(
      select, Params().text(reader_.relay).int4(static_cast<std::int32_t>(reader_.lane)));
  if (!rows) return fail(rows.error());
  if (rows->empty()) {
    reader_.connection.close();  // the next try makes the row again
    return fail(Errc::unavailable, "the row of relay \"" + reader_.relay +
                                       "\" is gone; check who deletes from dovetail.reader");
  }
  const Holder holder = holder_in(*rows, 0, 0, term_);
  const bool is_free = watch_.is_free(holder.sign, holder.has_run_out, holder.term, clock_.now());
  if (is_free || holder.owner.empty() || holder.owner == owner_ || is_gone(holder.owner)) {
    const Result<bool> taken = take(holder.sign);
    if (!taken) return fail(taken.error());
    if (*taken) return {};
  }
  // Meanwhile the relay may have got another target.
  DOVETAIL_TRY(bind_target(reader_.connection, reader_.relay, reader_.target));
  return fail(Errc::unavailable, "lane " + std::to_string(reader_.lane) + " of relay \"" +
                                     reader_.relay + "\" is held by " + shown_owner(holder.owner) +
                                     " for another " + std::to_string(holder.left.count()) +
                                     " s unless renewed; check whether that relay runs");
}

Status PostgresLease::renew() {
  DOVETAIL_TRY(connect(reader_));
  const TimePoint asked_at = clock_.now();
  const Result<Rows> renewed =
      reader_.connection.query(kRenew, Params()
                                           .text(reader_.relay)
                                           .int4(static_cast<std::int32_t>(reader_.lane))
                                           .int8(reader_.epoch)
                                           .int8(term_.count()));
  if (!renewed) return fail(renewed.error());
  if (renewed->affected() == 0) return fail(taken_over(reader_));
  hold_from(asked_at);
  return {};
}

Status PostgresLease::release() {
  deadline_ = renew_at_ = TimePoint{};
  if (reader_.epoch <= kNoLeaseNow) return {};
  DOVETAIL_TRY(connect(reader_));
  const Result<Rows> released =
      reader_.connection.query(kRelease, Params()
                                             .text(reader_.relay)
                                             .int4(static_cast<std::int32_t>(reader_.lane))
                                             .int8(reader_.epoch));
  if (!released) return fail(released.error());
  reader_.epoch = kNoLeaseNow;
  return {};
}

}  // namespace dovetail::postgres
