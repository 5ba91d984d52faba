#include "postgres/reconcile/held_rows.h"

namespace dovetail::postgres {

namespace {

using reconcile::Hold;

// $1 the relay, $2 the last id, $3 what finished earlier is left out, $4 rows.
constexpr std::string_view kHeld =
    "SELECT p.id, CASE WHEN p.state = 'delivered' THEN 'waiting' ELSE p.state END FROM "
    "dovetail.parked AS p WHERE p.relay = $1 AND p.id > $2 AND (p.finished_at IS NULL OR p.state = "
    "'discarded' OR p.finished_at >= $3) ORDER BY p.id LIMIT $4";

Hold hold_of(std::string_view state) {
  if (state == "discarded") return Hold::discarded;
  return state == "parked" ? Hold::parked : Hold::waiting;
}

}  // namespace

Status HeldRows::read_page(std::vector<reconcile::Held>& page) {
  const Result<Rows> rows = connection_.query(
      kHeld, Params().text(relay_).uuid(last_).timestamptz(since_).int8(reconcile::kPageRows));
  if (!rows) return fail(rows.error());
  for (std::size_t i = 0; i < rows->size(); ++i)
    page.push_back({rows->uuid(i, 0), hold_of(rows->text(i, 1))});
  if (!page.empty()) last_ = page.back().id;
  return {};
}

Result<reconcile::Place> read_place(Connection& connection) {
  const Result<Rows> rows =
      connection.query("SELECT session_user::text, pg_catalog.clock_timestamp()");
  if (!rows) return fail(rows.error());
  return reconcile::Place{.login = std::string(rows->text(0, 0)), .at = rows->timestamptz(0, 1)};
}

}  // namespace dovetail::postgres
