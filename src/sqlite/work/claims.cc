#include "sqlite/work/claims.h"

#include <utility>

#include "sqlite/connection/session.h"

namespace dovetail::sqlite {

namespace {

const std::string kOfEvent = " WHERE consumer_id = $1 AND event_id = $2";
const std::string kOfClaimHolder = kOfEvent + " AND epoch = $3";

const ClaimStatements& claim_statements() {
  static const ClaimStatements statements = {
      .add_consumer =
          "INSERT INTO dovetail_consumer (name, created_at) VALUES ($1, :now) ON CONFLICT (name) "
          "DO NOTHING",
      .consumer = "SELECT id FROM dovetail_consumer WHERE name = $1",
      .reserve_epochs = "UPDATE dovetail_claim_epoch SET last = last + $1",
      .last_epoch = "SELECT last FROM dovetail_claim_epoch",
      .take =
          "INSERT INTO dovetail_claim (consumer_id, event_id, epoch, attempts, lease_expires, "
          "lease_boot, updated_at, digest, available_at) "
          "VALUES ($1, $2, $3, 1, :boot_time + $4, :boot, :now, $5, nullif($6, 0)) "
          "ON CONFLICT (consumer_id, event_id) DO UPDATE SET epoch = excluded.epoch, attempts = "
          "attempts + 1, lease_expires = excluded.lease_expires, lease_boot = excluded.lease_boot, "
          "updated_at = excluded.updated_at, digest = excluded.digest, available_at = "
          "excluded.available_at WHERE NOT (lease_boot = :boot AND lease_expires > :boot_time) AND "
          "coalesce(digest = excluded.digest, true)",
      .look =
          "SELECT i.event_id IS NOT NULL, i.digest, coalesce(c.epoch, 0), coalesce(c.attempts, 0), "
          "c.digest, s.forgotten_until, u.event_id IS NOT NULL FROM dovetail_consumer AS s "
          "LEFT JOIN dovetail_inbox AS i ON i.consumer_id = s.id AND i.event_id = $2 "
          "LEFT JOIN dovetail_claim AS c ON c.consumer_id = s.id AND c.event_id = $2 "
          "LEFT JOIN dovetail_unapplied AS u ON u.consumer_id = s.id AND u.event_id = $2 "
          "WHERE s.id = $1",
      .apply =
          "INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at, digest, available_at) "
          "SELECT consumer_id, event_id, :now, digest, available_at FROM dovetail_claim" +
          kOfClaimHolder + " ON CONFLICT DO NOTHING",
      .drop = "DELETE FROM dovetail_claim" + kOfClaimHolder,
      .give_back =
          "UPDATE dovetail_claim SET epoch = 0, lease_expires = 0, attempts = attempts - $4, "
          "updated_at = :now" +
          kOfClaimHolder,
      .drop_untried = "DELETE FROM dovetail_claim" + kOfEvent + " AND epoch = 0 AND attempts <= 0",
      .note_unapplied =
          "INSERT INTO dovetail_unapplied (consumer_id, event_id, since) SELECT consumer_id, "
          "event_id, :now FROM dovetail_claim" +
          kOfClaimHolder + " ON CONFLICT DO NOTHING",
      .count =
          "UPDATE dovetail_consumer SET applied = applied + $2, duplicates = duplicates + $3 "
          "WHERE id = $1"};
  return statements;
}

}  // namespace

SqliteClaimStore::SqliteClaimStore(std::string path, std::string consumer, Clock& clock,
                                   std::string boot)
    : SqlClaimStore(std::make_unique<SqliteSession>(std::move(path), Durability::full, clock,
                                                    std::move(boot)),
                    claim_statements(), std::move(consumer)) {}

}  // namespace dovetail::sqlite
