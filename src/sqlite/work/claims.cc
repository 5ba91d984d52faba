#include "sqlite/work/claims.h"

#include "core/inbox/forgotten.h"
#include "sqlite/inbox/consumer_row.h"

namespace dovetail::sqlite {

namespace {

// One row always: whether the inbox has the event, and the claim of it, if there is one.
constexpr std::string_view kFind =
    "SELECT i.event_id IS NOT NULL, c.attempts, c.lease_expires, c.lease_boot, "
    "coalesce(i.digest, c.digest) FROM (SELECT 1) "
    "LEFT JOIN dovetail_inbox AS i ON i.consumer_id = ?1 AND i.event_id = ?2 "
    "LEFT JOIN dovetail_claim AS c ON c.consumer_id = ?1 AND c.event_id = ?2";
constexpr std::string_view kNextEpoch =
    "UPDATE dovetail_claim_epoch SET last = last + 1 RETURNING last";
constexpr std::string_view kPut =
    "INSERT INTO dovetail_claim (consumer_id, event_id, epoch, attempts, lease_expires, "
    "lease_boot, updated_at, digest, available_at) VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8) "
    "ON CONFLICT (consumer_id, event_id) DO UPDATE SET epoch = ?3, attempts = attempts + 1, "
    "lease_expires = ?4, lease_boot = ?5, updated_at = ?6, digest = ?7, available_at = ?8 "
    "RETURNING attempts";
constexpr std::string_view kTake =
    "DELETE FROM dovetail_claim WHERE consumer_id = ?1 AND event_id = ?2 AND epoch = ?3";
// Before its claim is taken, which has the rest.
constexpr std::string_view kInsert =
    "INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at, digest, available_at) SELECT "
    "consumer_id, event_id, ?4, digest, available_at FROM dovetail_claim WHERE consumer_id = ?1 "
    "AND event_id = ?2 AND epoch = ?3 ON CONFLICT DO NOTHING";
constexpr std::string_view kNoteUnapplied =
    "INSERT INTO dovetail_unapplied (consumer_id, event_id, since) SELECT consumer_id, event_id, "
    "?4 FROM dovetail_claim WHERE consumer_id = ?1 AND event_id = ?2 AND epoch = ?3 ON CONFLICT DO "
    "NOTHING";
// With the epoch, which no claim ever has again, goes the right to give it back a second time.
constexpr std::string_view kGiveBack =
    "UPDATE dovetail_claim SET epoch = 0, lease_expires = 0, attempts = attempts - ?4, "
    "updated_at = ?5 WHERE consumer_id = ?1 AND event_id = ?2 AND epoch = ?3";
constexpr std::string_view kErase =
    "DELETE FROM dovetail_claim WHERE consumer_id = ?1 AND event_id = ?2 AND epoch = 0 "
    "AND attempts <= 0";
constexpr std::string_view kAddTotals =
    "UPDATE dovetail_consumer SET applied = applied + ?2, duplicates = duplicates + ?3 "
    "WHERE id = ?1";

}  // namespace

SqliteClaimStore::SqliteClaimStore(std::string path, std::string consumer, Clock& clock,
                                   std::string boot)
    : path_(std::move(path)),
      consumer_(std::move(consumer)),
      clock_(clock),
      boot_(std::move(boot)) {}

Status SqliteClaimStore::open() {
  Result<Database> database = open_store(path_);
  if (!database) return fail(database.error());
  database_ = std::move(*database);
  file_ = database_.file();
  DOVETAIL_TRY(prepare());
  return find_consumer();
}

Status SqliteClaimStore::prepare() {
  DOVETAIL_TRY(database_.prepare(find_, kFind));
  DOVETAIL_TRY(database_.prepare(next_epoch_, kNextEpoch));
  DOVETAIL_TRY(database_.prepare(put_, kPut));
  DOVETAIL_TRY(database_.prepare(take_, kTake));
  DOVETAIL_TRY(database_.prepare(insert_, kInsert));
  DOVETAIL_TRY(database_.prepare(note_unapplied_, kNoteUnapplied));
  DOVETAIL_TRY(database_.prepare(give_back_, kGiveBack));
  DOVETAIL_TRY(database_.prepare(erase_, kErase));
  return database_.prepare(totals_, kAddTotals);
}

Status SqliteClaimStore::find_consumer() {
  Result<Transaction> transaction = begin("opening the claims");
  if (!transaction) return fail(transaction.error());
  const Result<ConsumerRow> row = sqlite::find_consumer(database_.get(), consumer_, clock_.wall());
  if (!row) return fail(row.error());
  consumer_id_ = row->id;
  return commit(*transaction, "opening the claims");
}

Result<Transaction> SqliteClaimStore::begin(std::string_view doing) {
  if (!database_) return fail(Errc::unavailable, "the claims are closed; call open() first");
  return Transaction::begin(database_.get(), doing);
}

Status SqliteClaimStore::commit(Transaction& transaction, std::string_view doing) {
  DOVETAIL_TRY(transaction.commit(doing));
  checkpointer_.after_commit(database_.get(), file_);
  return {};
}

Result<std::vector<Claim>> SqliteClaimStore::claim(Events events, Duration lease) {
  Result<Transaction> transaction = begin("claiming events");
  if (!transaction) return fail(transaction.error());
  const Result<WallTime> forgotten = forgotten_until(database_.get(), consumer_id_);
  if (!forgotten) return fail(forgotten.error());
  std::vector<Claim> claims;
  std::uint64_t duplicates = 0;
  for (const Event* event : events) {
    const Result<Claim> claim = claim_one(*event, lease, *forgotten);
    if (!claim) return fail(claim.error());
    if (claim->state == Claim::State::duplicate) ++duplicates;
    claims.push_back(*claim);
  }
  DOVETAIL_TRY(add_totals(0, duplicates));
  DOVETAIL_TRY(commit(*transaction, "claiming events"));
  return claims;
}

Result<Claim> SqliteClaimStore::claim_one(const Event& event, Duration lease, WallTime forgotten) {
  const EventId& id = event.id;
  const TimePoint now = clock_.now();
  {
    const Reading reading(find_);
    const Result<bool> row = find_.bind(1, consumer_id_).bind_id(2, id).step();
    if (!row) return fail(row.error());
    if (is_other_payload(find_, 4, event)) return Claim{Claim::State::conflict, 0, 0};
    if (find_.integer(0) != 0) return Claim{Claim::State::duplicate, 0, 0};
    const TimePoint expires{Duration{find_.integer(2)}};
    if (find_.bytes(3) == boot_ && expires > now) return Claim{Claim::State::in_progress, 0, 0};
  }
  if (is_forgotten(event, forgotten)) {
    const Result<bool> known = is_unapplied(database_.get(), consumer_id_, id);
    if (!known) return fail(known.error());
    if (!*known) return Claim{Claim::State::forgotten, 0, 0};
  }
  const Reading numbering(next_epoch_);
  const Result<bool> numbered = next_epoch_.step();
  if (!numbered) return fail(numbered.error());
  const std::int64_t epoch = next_epoch_.integer(0);
  const Reading putting(put_);
  put_.bind(1, consumer_id_)
      .bind_id(2, id)
      .bind(3, epoch)
      .bind(4, (now + lease).time_since_epoch().count())
      .bind_text(5, boot_)
      .bind(6, to_stored(clock_.wall()));
  bind_payload(put_, 7, event);
  const Result<bool> put = put_.step();
  if (!put) return fail(put.error());
  return Claim{Claim::State::first, epoch, static_cast<std::uint32_t>(put_.integer(0))};
}

Status SqliteClaimStore::complete(std::span<const EventId> ids,
                                  std::span<const std::int64_t> epochs, std::span<bool> done) {
  Result<Transaction> transaction = begin("completing events");
  if (!transaction) return fail(transaction.error());
  std::uint64_t applied = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Result<bool> completed = complete_one(ids[i], epochs[i]);
    if (!completed) return fail(completed.error());
    done[i] = *completed;
    if (*completed) ++applied;
  }
  DOVETAIL_TRY(add_totals(applied, 0));
  return commit(*transaction, "completing events");
}

Result<bool> SqliteClaimStore::complete_one(const EventId& id, std::int64_t epoch) {
  insert_.bind(1, consumer_id_).bind_id(2, id).bind(3, epoch).bind(4, to_stored(clock_.wall()));
  DOVETAIL_TRY(insert_.run());
  DOVETAIL_TRY(take_.bind(1, consumer_id_).bind_id(2, id).bind(3, epoch).run());
  return take_.changes() > 0;
}

Status SqliteClaimStore::release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                                 ReleaseReason how) {
  Result<Transaction> transaction = begin("giving claims back");
  if (!transaction) return fail(transaction.error());
  for (std::size_t i = 0; i < ids.size(); ++i) DOVETAIL_TRY(release_one(ids[i], epochs[i], how));
  return commit(*transaction, "giving claims back");
}

Status SqliteClaimStore::release_one(const EventId& id, std::int64_t epoch, ReleaseReason how) {
  if (how != ReleaseReason::untried)
    DOVETAIL_TRY(note_unapplied_.bind(1, consumer_id_)
                     .bind_id(2, id)
                     .bind(3, epoch)
                     .bind(4, to_stored(clock_.wall()))
                     .run());
  if (how == ReleaseReason::parked)
    return take_.bind(1, consumer_id_).bind_id(2, id).bind(3, epoch).run();
  give_back_.bind(1, consumer_id_)
      .bind_id(2, id)
      .bind(3, epoch)
      .bind(4, how == ReleaseReason::untried ? 1 : 0)
      .bind(5, to_stored(clock_.wall()));
  DOVETAIL_TRY(give_back_.run());
  return erase_.bind(1, consumer_id_).bind_id(2, id).run();
}

Status SqliteClaimStore::add_totals(std::uint64_t applied, std::uint64_t duplicates) {
  if (applied == 0 && duplicates == 0) return {};
  totals_.bind(1, consumer_id_)
      .bind(2, static_cast<std::int64_t>(applied))
      .bind(3, static_cast<std::int64_t>(duplicates));
  return totals_.run();
}

}  // namespace dovetail::sqlite
