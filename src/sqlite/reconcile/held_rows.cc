#include "sqlite/reconcile/held_rows.h"

#include <limits>
#include <string_view>

namespace dovetail::sqlite {

namespace {

using reconcile::Hold;

// ?1 the relay, ?2 the last id, ?3 what finished earlier is left out, ?4 what the mailbox has up to
// here is passed, ?5 rows.
constexpr std::string_view kHeld =
    "SELECT id, state FROM (SELECT id, CASE state WHEN 'delivered' THEN 'waiting' ELSE state END "
    "AS state FROM dovetail_parked WHERE relay = ?1 AND id > ?2 AND (finished_at = 0 OR state = "
    "'discarded' OR finished_at >= ?3) ORDER BY id LIMIT ?5) UNION ALL SELECT id, state FROM "
    "(SELECT id, 'waiting' AS state FROM dovetail_mailbox WHERE id > ?2 AND seq > ?4 ORDER BY id "
    "LIMIT ?5) ORDER BY 1 LIMIT ?5";

Hold hold_of(std::string_view state) {
  if (state == "discarded") return Hold::discarded;
  return state == "parked" ? Hold::parked : Hold::waiting;
}

}  // namespace

Result<Passed> read_passed(const Database& database, const std::string& relay) {
  Result<Statement> select =
      database.prepare("SELECT source, topics, passed_seq FROM dovetail_relay WHERE relay = ?1");
  if (!select) return fail(select.error());
  const Result<bool> row = select->bind_text(1, relay).step();
  if (!row) return fail(row.error());
  if (!*row) return Passed{};
  return Passed{std::string(select->bytes(0)), std::string(select->bytes(1)), select->integer(2)};
}

Status HeldRows::read_page(std::vector<reconcile::Held>& page) {
  Result<Statement> select = database_.prepare(kHeld);
  if (!select) return fail(select.error());
  // Without a consumer of the mailbox nothing in it waits for one.
  const bool reads_mailbox = passed_.source == "mailbox";
  select->bind_text(1, relay_)
      .bind_id(2, last_)
      .bind(3, to_stored(since_))
      .bind(4, reads_mailbox ? passed_.seq : std::numeric_limits<std::int64_t>::max())
      .bind(5, reconcile::kPageRows);
  for (;;) {
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) break;
    page.push_back({select->id(0), hold_of(select->bytes(1))});
  }
  if (!page.empty()) last_ = page.back().id;
  return {};
}

}  // namespace dovetail::sqlite
