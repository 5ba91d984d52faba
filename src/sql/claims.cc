#include "sql/claims.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/inbox/forgotten.h"

namespace dovetail {

namespace {

// The row of a claim after this process has tried to take it.
struct ClaimRow {
  bool is_applied = false;
  bool is_unapplied = false;
  bool is_other_payload = false;
  std::int64_t epoch = 0;
  std::uint32_t attempts = 0;
  WallTime forgotten_until{};
};

ClaimRow row_of(const SqlRows& rows, std::int64_t digest) {
  ClaimRow row;
  row.is_applied = rows.boolean(0, 0);
  const std::size_t known = row.is_applied ? 1 : 4;
  // An unknown payload counts as the same.
  row.is_other_payload = !rows.is_null(0, known) && rows.integer(0, known) != digest;
  row.epoch = rows.integer(0, 2);
  row.attempts = static_cast<std::uint32_t>(rows.integer(0, 3));
  row.forgotten_until = rows.time(0, 5);
  row.is_unapplied = rows.boolean(0, 6);
  return row;
}

// `epoch`: what a claim of ours has.
Claim decide_claim(const ClaimRow& row, const Event& event, std::int64_t epoch) {
  if (row.is_other_payload) return {Claim::State::conflict};
  if (row.is_applied) return {Claim::State::duplicate};
  if (row.epoch != epoch) return {Claim::State::in_progress};
  if (is_forgotten(event, row.forgotten_until) && !row.is_unapplied)
    return {Claim::State::forgotten};
  return {Claim::State::first, row.epoch, row.attempts};
}

std::vector<std::size_t> order_of(std::span<const EventId> ids) {
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return ids[a] < ids[b]; });
  return order;
}

// What an inbox row keeps besides the id: see ClaimStatements::take.
WallTime stored_time(const Event& event) {
  const std::optional<WallTime> time = available_at(event);
  return !time || time == time_of(event.id) ? WallTime{} : *time;
}

}  // namespace

struct SqlClaimStore::Wanted {
  const Event* event;
  std::size_t place;  // in the caller's order
  std::int64_t epoch;
  std::int64_t digest;
};

SqlClaimStore::SqlClaimStore(std::unique_ptr<SqlSession> session, const ClaimStatements& sql,
                             std::string consumer)
    : session_(std::move(session)), sql_(sql), consumer_(std::move(consumer)) {}

Status SqlClaimStore::open() {
  session_->close();
  Status found = find_consumer();
  if (!found) session_->close();
  return found;
}

Status SqlClaimStore::find_consumer() {
  DOVETAIL_TRY(session_->connect());
  Result<SqlTransaction> transaction = SqlTransaction::begin(*session_, "opening the claims");
  if (!transaction) return fail(transaction.error());
  const SqlParams name = SqlParams().text(consumer_);
  const Result<SqlRows> added = session_->run(sql_.add_consumer, name);
  if (!added) return fail(added.error());
  const Result<SqlRows> row = session_->run(sql_.consumer, name);
  if (!row) return fail(row.error());
  consumer_id_ = row->integer(0, 0);
  return transaction->commit();
}

Result<std::int64_t> SqlClaimStore::reserve_epochs(std::size_t count) {
  const auto many = static_cast<std::int64_t>(count);
  const Result<SqlRows> reserved = session_->run(sql_.reserve_epochs, SqlParams().integer(many));
  if (!reserved) return fail(reserved.error());
  const Result<SqlRows> last = session_->run(sql_.last_epoch);
  if (!last) return fail(last.error());
  return last->integer(0, 0) - many + 1;
}

Result<std::vector<SqlClaimStore::Wanted>> SqlClaimStore::in_order(Events events) {
  const Result<std::int64_t> first = reserve_epochs(events.size());
  if (!first) return fail(first.error());
  std::vector<EventId> ids;
  for (const Event* event : events) ids.push_back(event->id);
  std::vector<Wanted> wanted;
  for (const std::size_t i : order_of(ids))
    wanted.push_back({events[i], i, *first + static_cast<std::int64_t>(wanted.size()),
                      payload_digest(events[i]->payload)});
  return wanted;
}

// Tries to take each claim, and only then looks: nobody else can complete or take it meanwhile.
Result<std::vector<SqlRows>> SqlClaimStore::take(const std::vector<Wanted>& wanted,
                                                 Duration lease) {
  Sets takes;
  Sets looks;
  for (const Wanted& one : wanted) {
    looks.push_back(of(one.event->id));
    takes.push_back(looks.back());
    takes.back().integer(one.epoch).microseconds(lease).integer(one.digest);
    takes.back().time(stored_time(*one.event));
  }
  DOVETAIL_TRY(run_each(sql_.take, takes));
  return session_->run_each(sql_.look, looks);
}

Result<std::vector<Claim>> SqlClaimStore::claim(Events events, Duration lease) {
  std::vector<Claim> claims(events.size());
  if (events.empty()) return claims;
  Result<SqlTransaction> transaction = SqlTransaction::begin(*session_, "claiming events");
  if (!transaction) return fail(transaction.error());
  const Result<std::vector<Wanted>> wanted = in_order(events);
  if (!wanted) return fail(wanted.error());
  const Result<std::vector<SqlRows>> rows = take(*wanted, lease);
  if (!rows) return fail(rows.error());
  Sets not_ours;
  std::uint64_t duplicates = 0;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const Wanted& one = (*wanted)[i];
    const ClaimRow row = row_of((*rows)[i], one.digest);
    const Claim claim = decide_claim(row, *one.event, one.epoch);
    if (claim.state == Claim::State::duplicate) ++duplicates;
    if (claim.state != Claim::State::first && row.epoch == one.epoch)
      not_ours.push_back(of(one.event->id).integer(one.epoch));
    claims[one.place] = claim;
  }
  DOVETAIL_TRY(run_each(sql_.drop, not_ours));
  DOVETAIL_TRY(count(0, duplicates));
  DOVETAIL_TRY(transaction->commit());
  return claims;
}

Status SqlClaimStore::run_each(const std::string& sql, const Sets& sets) {
  if (sets.empty()) return {};
  const Result<std::vector<SqlRows>> done = session_->run_each(sql, sets);
  if (!done) return fail(done.error());
  return {};
}

SqlClaimStore::Sets SqlClaimStore::held(std::span<const EventId> ids,
                                        std::span<const std::int64_t> epochs,
                                        const std::vector<std::size_t>& order) const {
  Sets sets;
  for (const std::size_t i : order) sets.push_back(of(ids[i]).integer(epochs[i]));
  return sets;
}

// Also when its lease has ended: a new owner would have changed its epoch. An event that was
// applied without a claim is not completed by us.
Status SqlClaimStore::complete(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                               std::span<bool> done) {
  if (ids.empty()) return {};
  const std::vector<std::size_t> order = order_of(ids);
  const Sets sets = held(ids, epochs, order);
  Result<SqlTransaction> transaction = SqlTransaction::begin(*session_, "completing events");
  if (!transaction) return fail(transaction.error());
  const Result<std::vector<SqlRows>> applied = session_->run_each(sql_.apply, sets);
  if (!applied) return fail(applied.error());
  DOVETAIL_TRY(run_each(sql_.drop, sets));
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    done[order[i]] = (*applied)[i].affected() == 1;
    if (done[order[i]]) ++total;
  }
  DOVETAIL_TRY(count(total, 0));
  return transaction->commit();
}

// An event that was tried and not done is known as not applied, however long it is parked.
Status SqlClaimStore::release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                              ReleaseReason how) {
  if (ids.empty()) return {};
  const std::vector<std::size_t> order = order_of(ids);
  const Sets sets = held(ids, epochs, order);
  Result<SqlTransaction> transaction = SqlTransaction::begin(*session_, "giving claims back");
  if (!transaction) return fail(transaction.error());
  if (how != ReleaseReason::untried) DOVETAIL_TRY(run_each(sql_.note_unapplied, sets));
  if (how == ReleaseReason::parked) {
    DOVETAIL_TRY(run_each(sql_.drop, sets));
    return transaction->commit();
  }
  Sets given;
  Sets untried;
  for (const std::size_t i : order) {
    given.push_back(of(ids[i]).integer(epochs[i]).integer(how == ReleaseReason::untried ? 1 : 0));
    untried.push_back(of(ids[i]));
  }
  DOVETAIL_TRY(run_each(sql_.give_back, given));
  DOVETAIL_TRY(run_each(sql_.drop_untried, untried));
  return transaction->commit();
}

Status SqlClaimStore::count(std::uint64_t applied, std::uint64_t duplicates) {
  if (applied == 0 && duplicates == 0) return {};
  const Result<SqlRows> counted =
      session_->run(sql_.count, SqlParams()
                                    .integer(consumer_id_)
                                    .integer(static_cast<std::int64_t>(applied))
                                    .integer(static_cast<std::int64_t>(duplicates)));
  if (!counted) return fail(counted.error());
  return {};
}

}  // namespace dovetail
