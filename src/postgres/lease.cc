#include "postgres/lease.h"

#include "host/owner.h"

namespace dovetail::postgres {

namespace {

constexpr std::string_view kAcquire =
    "UPDATE dovetail.reader SET owner = $3, epoch = epoch + 1, "
    "expires = clock_timestamp() + $4 * interval '1 microsecond' "
    "WHERE relay = $1 AND lane = $2 AND (owner IN ('', $3, $5) OR expires <= clock_timestamp()) "
    "AND ($6 = '' OR target = $6) RETURNING epoch";

constexpr std::string_view kHolder =
    "SELECT owner, ceil(extract(epoch FROM expires - clock_timestamp()))::bigint "
    "FROM dovetail.reader WHERE relay = $1 AND lane = $2";

constexpr std::string_view kRenew =
    "UPDATE dovetail.reader SET expires = clock_timestamp() + $4 * interval '1 microsecond' "
    "WHERE relay = $1 AND lane = $2 AND epoch = $3";

constexpr std::string_view kRelease =
    "UPDATE dovetail.reader SET owner = '', expires = clock_timestamp() "
    "WHERE relay = $1 AND lane = $2 AND epoch = $3";

}  // namespace

PostgresLease::PostgresLease(Reader& reader, Clock& clock, std::string owner, Duration term)
    : reader_(reader), clock_(clock), owner_(lease_owner(owner)), term_(term) {}

void PostgresLease::hold_from(TimePoint asked_at) {
  deadline_ = asked_at + term_ - term_ / 10;
  renew_at_ = asked_at + term_ / 3;
}

// True: it is ours. Otherwise somebody holds it who is not `gone`.
Result<bool> PostgresLease::take(std::string_view gone) {
  const TimePoint asked_at = clock_.now();
  const Result<Rows> taken =
      reader_.connection.query(kAcquire, Params()
                                             .text(reader_.relay)
                                             .int4(static_cast<std::int32_t>(reader_.lane))
                                             .text(owner_)
                                             .int8(term_.count())
                                             .text(gone)
                                             .text(reader_.target));
  if (!taken) return fail(taken.error());
  if (taken->size() != 1) return false;
  reader_.epoch = taken->int8(0, 0);
  hold_from(asked_at);
  return true;
}

Status PostgresLease::acquire() {
  reader_.epoch = kNoLeaseNow;
  DOVETAIL_TRY(connect(reader_));
  const Result<bool> taken = take({});
  if (!taken) return fail(taken.error());
  if (*taken) return {};
  // Meanwhile the relay may have got another target.
  DOVETAIL_TRY(bind_target(reader_.connection, reader_.relay, reader_.target));
  const Result<Rows> holder = reader_.connection.query(
      kHolder, Params().text(reader_.relay).int4(static_cast<std::int32_t>(reader_.lane)));
  if (!holder) return fail(holder.error());
  if (holder->empty()) {
    reader_.connection.close();  // the next try makes the row again
    return fail(Errc::unavailable, "the row of relay \"" + reader_.relay +
                                       "\" is gone; check who deletes from dovetail.reader");
  }
  const std::string owner(holder->text(0, 0));
  if (is_gone(owner)) {
    const Result<bool> inherited = take(owner);
    if (!inherited) return fail(inherited.error());
    if (*inherited) return {};
  }
  return fail(Errc::unavailable, "lane " + std::to_string(reader_.lane) + " of relay \"" +
                                     reader_.relay + "\" is held by " + shown_owner(owner) +
                                     " for another " + std::to_string(holder->int8(0, 1)) +
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
