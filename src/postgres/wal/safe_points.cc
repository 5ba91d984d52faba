#include "postgres/wal/safe_points.h"

#include <utility>

#include "core/relay/server_run.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kIdleEvery = 5s;
constexpr Duration kWriteAfter = 200ms;
// The stream is too slow if it has not reached a safe point in this many intervals.
constexpr int kOverdueAfter = 4;

// The snapshot comes first: it is taken before the statement runs.
std::string take_sql(const Connection& connection) {
  return "SELECT shown::text, (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, last_value, " +
         kHistory + ", " + kServerRun + ", " + publication_mark_sql(connection) +
         " FROM dovetail.outbox_seq, pg_current_snapshot() AS shown";
}

}  // namespace

Result<SafePoint> take_safe_point(Connection& connection, const Published& what) {
  const Result<Rows> rows =
      connection.query(take_sql(connection), publication_params(connection, what));
  if (!rows) return fail(rows.error());
  return SafePoint{std::string(rows->text(0, 0)),
                   WalPosition{static_cast<std::uint64_t>(rows->int8(0, 1))},
                   rows->int8(0, 2),
                   {std::string(rows->text(0, 3)), std::string(rows->text(0, 4)),
                    std::string(rows->text(0, 5))}};
}

void SafePoints::begin(Published what, Proof proof) {
  what_ = std::move(what);
  proof_ = std::move(proof);
  pending_.reset();
  pending_since_ = clock_.now();
  due_at_ = due_when_idle_at_ = {};
  has_read_ = is_first_ = true;
  write_at_.reset();
}

Result<std::string> SafePoints::take_if_due() {
  const TimePoint now = clock_.now();
  if (pending_ || now < due_at_ || !(has_read_ || now >= due_when_idle_at_)) return std::string();
  Result<SafePoint> taken = take_safe_point(reader_.connection, what_);
  if (!taken) return fail(taken.error());
  if (taken->proof.timeline != proof_.timeline)
    return std::string("another server has taken over; check for a failover");
  if (!is_same_run(proof_.run, taken->proof.run)) return run_has_ended().text;
  if (taken->proof.publication != proof_.publication)
    return "the publication " + what_.publication + " was changed; check who changes it";
  pending_ = std::move(*taken);
  pending_since_ = now;
  due_at_ = now + options_.safe_point_every;
  due_when_idle_at_ = now + kIdleEvery;
  has_read_ = false;
  options_.passing("safe point taken");
  return std::string();
}

bool SafePoints::pass(WalPosition position) {
  if (!pending_ || position < pending_->position) return false;
  progress_.cover(std::move(pending_->snapshot), pending_->last_seq);
  pending_.reset();
  write_at_ = clock_.now() + kWriteAfter;
  options_.passing("safe point covered");
  return std::exchange(is_first_, false);
}

bool SafePoints::is_overdue() const {
  return pending_ && clock_.now() >= pending_since_ + kOverdueAfter * options_.safe_point_every;
}

bool SafePoints::is_write_due() const {
  return write_at_ && clock_.now() >= *write_at_ && progress_.has_moved();
}

}  // namespace dovetail::postgres
