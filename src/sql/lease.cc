#include "sql/lease.h"

#include <algorithm>
#include <utility>

#include "core/relay/target.h"
#include "host/owner.h"

namespace dovetail {

namespace {

// A long lease is renewed this often, too: a renewal also tells the owner what an operator ordered.
constexpr Duration kRenewEvery = std::chrono::seconds(4);

}  // namespace

std::chrono::seconds longest_wait(const LeaseHolder& holder, Duration term) {
  const Duration longer = std::max(term, holder.term);
  return std::chrono::ceil<std::chrono::seconds>(std::min(holder.left, longer + longer / 10));
}

SqlLease::SqlLease(std::unique_ptr<SqlSession> session, const LaneStatements& sql, SqlLane lane,
                   LeaseClock kind, Clock& clock, const std::string& owner, Duration term,
                   LeaseWatch watch)
    : session_(std::move(session)),
      sql_(sql),
      lane_(lane),
      kind_(kind),
      clock_(clock),
      owner_(lease_owner(owner)),
      term_(term),
      watch_(std::move(watch)) {}

void SqlLease::hold_from(TimePoint asked_at) {
  deadline_ = asked_at + term_ - term_ / 10;
  renew_at_ = asked_at + std::min(term_ / 3, kRenewEvery);
}

Result<LeaseHolder> SqlLease::look() {
  const Result<std::optional<LeaseHolder>> holder = read_holder(*session_, sql_, lane_);
  if (!holder) return fail(holder.error());
  if (!*holder) {
    session_->close();  // the next try creates the row again
    return fail(Errc::unavailable,
                "the row of " + shown_lane(lane_) + " is gone; check who deletes such rows");
  }
  const std::string& bound = (*holder)->target;
  if (!lane_.target.empty() && !bound.empty() && bound != lane_.target)
    return fail(other_target(lane_.relay, bound, lane_.target));
  if (!lane_.target.empty() && bound.empty()) {
    session_->close();  // the next try binds it
    return fail(Errc::unavailable,
                shown_lane(lane_) + " has lost its target; check who writes its row");
  }
  return **holder;
}

bool SqlLease::is_free(const LeaseHolder& holder) {
  const TimePoint now = clock_.now();
  if (holder.owner.empty() || holder.owner == owner_) return true;
  const bool has_ended =
      kind_ == LeaseClock::steady
          ? holder.has_run_out
          : watch_.is_free(holder.sign, holder.has_run_out, std::max(term_, holder.term), now);
  return has_ended || is_gone(holder.owner);
}

Error SqlLease::held_by(const LeaseHolder& holder) const {
  return Error{Errc::unavailable, shown_lane(lane_) + " is held by " + shown_owner(holder.owner) +
                                      " for another " +
                                      std::to_string(longest_wait(holder, term_).count()) +
                                      " s unless renewed; check whether that relay runs"};
}

// False: the row has changed since it was seen.
Result<bool> SqlLease::take(const LeaseHolder& holder) {
  const TimePoint asked_at = clock_.now();
  const Result<SqlRows> taken = session_->run(
      sql_.take,
      lane_.params().text(owner_).microseconds(term_).text(holder.sign).text(lane_.target));
  if (!taken) return fail(taken.error());
  if (taken->empty()) return false;
  hold_ = parse_hold(taken->bytes(0, 0));
  watch_ = {};  // from now on it would see our own renewals
  lane_.epoch = holder.epoch + 1;
  hold_from(asked_at);
  return true;
}

Status SqlLease::acquire() {
  lane_.epoch = kNoLeaseNow;
  hold_ = Hold::none;
  DOVETAIL_TRY(session_->connect());
  const Result<LeaseHolder> holder = look();
  if (!holder) return fail(holder.error());
  hold_ = holder->hold;
  if (stops(hold_)) return fail(held_by_operator(lane_, *holder));
  if (!is_free(*holder)) return fail(held_by(*holder));
  const Result<bool> taken = take(*holder);
  if (!taken) return fail(taken.error());
  if (*taken) return {};
  // Another relay was faster, or the relay's target has changed meanwhile.
  const Result<LeaseHolder> meanwhile = look();
  return fail(meanwhile ? held_by(*meanwhile) : meanwhile.error());
}

Status SqlLease::renew() {
  DOVETAIL_TRY(session_->connect());
  const TimePoint asked_at = clock_.now();
  const Result<SqlRows> renewed =
      session_->run(sql_.renew, lane_.params().integer(lane_.epoch).microseconds(term_));
  if (!renewed) return fail(renewed.error());
  if (renewed->empty()) return fail(taken_over(lane_));
  hold_ = parse_hold(renewed->bytes(0, 0));
  hold_from(asked_at);
  return {};
}

Status SqlLease::release(bool is_drained) {
  deadline_ = renew_at_ = TimePoint{};
  if (lane_.epoch <= kNoLeaseNow) return {};
  DOVETAIL_TRY(session_->connect());
  const Result<SqlRows> released =
      session_->run(sql_.release, lane_.params().integer(lane_.epoch).boolean(is_drained));
  if (!released) return fail(released.error());
  lane_.epoch = kNoLeaseNow;
  return {};
}

}  // namespace dovetail
