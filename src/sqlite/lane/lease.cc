#include "sqlite/lane/lease.h"

#include "core/relay/target.h"
#include "host/owner.h"

namespace dovetail::sqlite {

SqliteLease::SqliteLease(Reader& reader, Clock& clock, const std::string& label, std::string boot,
                         Duration term)
    : reader_(reader),
      clock_(clock),
      owner_(lease_owner(label)),
      boot_(std::move(boot)),
      term_(term) {}

Status SqliteLease::connect() {
  if (database_) return {};
  OpenOptions options;
  options.durability = Durability::ordered;
  Result<Database> database = open_store(reader_.path, options);
  if (!database) return fail(database.error());
  DOVETAIL_TRY(ensure_reader(*database, reader_));
  database_ = std::move(*database);
  return {};
}

Status SqliteLease::acquire() {
  reader_.epoch = kNoLeaseNow;
  database_.close();
  DOVETAIL_TRY(connect());
  Result<Transaction> transaction = Transaction::begin(database_.get(), "taking the lease");
  if (!transaction) return fail(transaction.error());
  Result<Statement> select = database_.prepare(
      "SELECT owner, epoch, lease_expires, lease_boot, target FROM dovetail_reader WHERE name = "
      "?1");
  if (!select) return fail(select.error());
  const Result<bool> row = select->bind_text(1, reader_.name).step();
  if (!row) return fail(row.error());
  if (!*row)
    return fail(Errc::unavailable, "the row of reader \"" + reader_.name +
                                       "\" is gone; check who deletes from dovetail_reader");
  const TimePoint now = clock_.now();
  LeaseRow held;
  held.owner = std::string(select->bytes(0));
  held.epoch = static_cast<std::uint64_t>(select->integer(1));
  held.expires = TimePoint{Duration{select->integer(2)}};
  const bool of_this_boot = select->bytes(3) == boot_;
  if (!reader_.target.empty() && select->bytes(4) != reader_.target)
    return fail(other_target(reader_.name, select->bytes(4), reader_.target));
  select->reset();
  const bool is_held = held.owner != owner_ && of_this_boot && !lease_is_free(held, now);
  if (is_held && !is_gone(held.owner)) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(held.expires - now);
    return fail(Errc::unavailable, "reader \"" + reader_.name + "\" is held by " +
                                       shown_owner(held.owner) + " for another " +
                                       std::to_string(left.count()) +
                                       " s unless renewed; check whether that relay runs");
  }

  Result<Statement> update = database_.prepare(
      "UPDATE dovetail_reader SET owner = ?2, epoch = epoch + 1, lease_expires = ?3, "
      "lease_boot = ?4 WHERE name = ?1");
  if (!update) return fail(update.error());
  update->bind_text(1, reader_.name)
      .bind_text(2, owner_)
      .bind(3, (now + term_).time_since_epoch().count())
      .bind_text(4, boot_);
  DOVETAIL_TRY(update->run());
  DOVETAIL_TRY(transaction->commit("taking the lease"));
  reader_.epoch = static_cast<std::int64_t>(held.epoch) + 1;
  asked_at_ = now;
  return {};
}

Status SqliteLease::renew() {
  DOVETAIL_TRY(connect());
  const TimePoint asked_at = clock_.now();
  DOVETAIL_TRY(write_expiry(asked_at));
  asked_at_ = asked_at;
  return {};
}

Status SqliteLease::write_expiry(TimePoint asked_at) {
  Result<Statement> update = database_.prepare(
      "UPDATE dovetail_reader SET lease_expires = ?4, lease_boot = ?5 "
      "WHERE name = ?1 AND owner = ?2 AND epoch = ?3");
  if (!update) return fail(update.error());
  update->bind_text(1, reader_.name)
      .bind_text(2, owner_)
      .bind(3, reader_.epoch)
      .bind(4, (asked_at + term_).time_since_epoch().count())
      .bind_text(5, boot_);
  DOVETAIL_TRY(update->run());
  if (update->changes() == 0)
    return fail(Errc::stopped, "the lease of reader \"" + reader_.name +
                                   "\" was lost to another relay; check that only one is meant "
                                   "to run, and whether this one was paused");
  return {};
}

Status SqliteLease::release() {
  if (!database_ || reader_.epoch <= kNoLeaseNow) return {};
  Result<Statement> update = database_.prepare(
      "UPDATE dovetail_reader SET owner = '', lease_expires = 0 "
      "WHERE name = ?1 AND owner = ?2 AND epoch = ?3");
  if (!update) return fail(update.error());
  DOVETAIL_TRY(
      update->bind_text(1, reader_.name).bind_text(2, owner_).bind(3, reader_.epoch).run());
  reader_.epoch = kNoLeaseNow;
  return {};
}

// A tenth of the term is left for clocks and threads that are late.
TimePoint SqliteLease::deadline() const { return asked_at_ + term_ - term_ / 10; }

TimePoint SqliteLease::renew_at() const { return asked_at_ + term_ / 3; }

}  // namespace dovetail::sqlite
