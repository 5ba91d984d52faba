#include "sqlite/operate/life.h"

#include <algorithm>

#include "host/host.h"
#include "sqlite/connection/database.h"
#include "sqlite/operate/admin.h"

namespace dovetail::sqlite {

namespace {

// ?1 the relay, ?2 the event's number, ?3 how many receipts are looked at: after a relay was moved
// back, several have it.
constexpr std::string_view kReceipts =
    "SELECT at, owner, events, places FROM (SELECT * FROM dovetail_receipt WHERE relay = ?1 AND "
    "last_seq >= ?2 ORDER BY last_seq LIMIT ?3) WHERE first_seq <= ?2 ORDER BY at";
constexpr std::int64_t kReceiptsMax = 1000;

constexpr std::string_view kHandlers =
    "SELECT c.name, i.applied_at, i.digest, coalesce(k.attempts, a.attempts, 0), "
    "coalesce(a.updated_at, k.updated_at), i.event_id IS NOT NULL, CASE WHEN k.lease_boot = ?2 AND "
    "k.lease_expires > ?3 THEN k.lease_expires END FROM dovetail_consumer AS c LEFT "
    "JOIN dovetail_inbox AS i ON i.consumer_id = c.id AND i.event_id = ?1 LEFT JOIN "
    "dovetail_attempt AS a ON a.consumer_id = c.id AND a.event_id = ?1 LEFT JOIN dovetail_claim AS "
    "k ON k.consumer_id = c.id AND k.event_id = ?1 WHERE i.event_id IS NOT NULL OR a.event_id IS "
    "NOT NULL OR k.event_id IS NOT NULL ORDER BY c.name";

Status fill_deliveries(const std::string& path, const EventRow& row, life::RelayFacts& relay) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Statement> select = database->prepare(kReceipts);
  if (!select) return fail(select.error());
  select->bind_text(1, relay.name).bind(2, row.position).bind(3, kReceiptsMax);
  for (;;) {
    const Result<bool> found = select->step();
    if (!found) return fail(found.error());
    if (!*found) return {};
    relay.deliveries.push_back({.at = from_stored(select->integer(0)),
                                .owner = std::string(select->bytes(1)),
                                .events = static_cast<std::uint64_t>(select->integer(2)),
                                .places = parse_places(select->bytes(3))});
  }
}

}  // namespace

// A file has one lane.
Status fill_relay(const std::string& path, const EventRow& row, life::RelayFacts& relay,
                  Clock& clock) {
  DOVETAIL_TRY(fill_deliveries(path, row, relay));
  const Result<StoreStatus> found = status(path, clock);
  if (!found) return fail(found.error());
  for (const RelayStatus& one : found->relays) {
    if (one.name != relay.name) continue;
    relay.is_known = true;
    relay.owner = one.owner;
    relay.epoch = one.epoch;
    relay.said = one.said;
  }
  return {};
}

Result<std::vector<life::HandlerFacts>> list_handlers(const std::string& path, const EventId& id,
                                                      Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Statement> select = database->prepare(kHandlers);
  if (!select) return fail(select.error());
  const TimePoint now = clock.now();
  select->bind_id(1, id).bind_text(2, boot_id()).bind(3, now.time_since_epoch().count());
  std::vector<life::HandlerFacts> handlers;
  for (;;) {
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) return handlers;
    life::HandlerFacts& handler = handlers.emplace_back();
    handler.name = std::string(select->bytes(0));
    if (select->integer(5) != 0) handler.applied_at = from_stored(select->integer(1));
    if (!select->is_null(2)) handler.digest = select->integer(2);
    handler.attempts = static_cast<std::uint32_t>(std::max<std::int64_t>(0, select->integer(3)));
    if (!select->is_null(4)) handler.tried_at = from_stored(select->integer(4));
    if (!select->is_null(6))
      handler.held_until = clock.wall() + (TimePoint{Duration{select->integer(6)}} - now);
  }
}

}  // namespace dovetail::sqlite
