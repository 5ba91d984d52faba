#include "postgres/work/claims.h"

#include <libpq-fe.h>

#include <map>
#include <set>

#include "core/check.h"
#include "core/inbox/forgotten.h"
#include "dovetail/postgres.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

Claim::State state_of(std::string_view text) {
  if (text == "first") return Claim::State::first;
  if (text == "duplicate") return Claim::State::duplicate;
  if (text == "in_progress") return Claim::State::in_progress;
  if (text == "conflict") return Claim::State::conflict;
  DOVETAIL_CHECK(text == "forgotten");
  return Claim::State::forgotten;
}

std::string_view text_of(ReleaseReason how) {
  switch (how) {
    case ReleaseReason::untried:
      return "untried";
    case ReleaseReason::failed:
      return "failed";
    case ReleaseReason::parked:
      break;
  }
  return "parked";
}

// Of the columns state, epoch and attempts, from `column` on.
Claim claim_of(const Rows& rows, std::size_t row, int column) {
  Claim claim;
  claim.state = state_of(rows.text(row, column));
  if (claim.state != Claim::State::first) return claim;
  claim.epoch = rows.int8(row, column + 1);
  claim.attempts = static_cast<std::uint32_t>(rows.int4(row, column + 2));
  return claim;
}

}  // namespace

Status PostgresClaimStore::open() {
  connection_.close();
  Result<Connection> connection = Connection::open(conninfo_);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  connection_ = std::move(*connection);
  return {};
}

Result<std::vector<Claim>> PostgresClaimStore::claim(Events events, Duration lease) {
  std::vector<EventId> ids;
  std::vector<WallTime> created;
  std::vector<std::int64_t> digests;
  for (const Event* event : events) {
    ids.push_back(event->id);
    created.push_back(event->created_at);
    digests.push_back(payload_digest(event->payload));
  }
  const Result<Rows> rows = connection_.query(
      "SELECT id, state, epoch, attempts FROM dovetail.claim_many($1, $2, $3, $4, $5 * interval '1 "
      "microsecond')",
      Params().text(consumer_).uuid_array(ids).timestamptz_array(created).int8_array(digests).int8(
          lease.count()));
  if (!rows) return fail(rows.error());
  std::map<EventId, Claim> found;
  for (std::size_t row = 0; row < rows->size(); ++row)
    found.emplace(rows->uuid(row, 0), claim_of(*rows, row, 1));
  std::vector<Claim> claims;
  for (const EventId& id : ids) claims.push_back(found.at(id));
  return claims;
}

Status PostgresClaimStore::complete(std::span<const EventId> ids,
                                    std::span<const std::int64_t> epochs, std::span<bool> done) {
  if (ids.empty()) return {};
  const Result<Rows> rows =
      connection_.query("SELECT id FROM dovetail.complete_claims($1, $2, $3) AS c (id)",
                        Params().text(consumer_).uuid_array(ids).int8_array(epochs));
  if (!rows) {
    // It commits by itself: without an answer nobody knows whether it did.
    if (!connection_ && rows.error().code == Errc::unavailable)
      return fail(Errc::in_doubt, rows.error().text);
    return fail(rows.error());
  }
  std::set<EventId> completed;
  for (std::size_t row = 0; row < rows->size(); ++row) completed.insert(rows->uuid(row, 0));
  for (std::size_t i = 0; i < ids.size(); ++i) done[i] = completed.contains(ids[i]);
  return {};
}

Status PostgresClaimStore::release(std::span<const EventId> ids,
                                   std::span<const std::int64_t> epochs, ReleaseReason how) {
  if (ids.empty()) return {};
  const Result<Rows> rows = connection_.query(
      "SELECT dovetail.release_claims($1, $2, $3, $4)",
      Params().text(consumer_).uuid_array(ids).int8_array(epochs).text(text_of(how)));
  if (!rows) return fail(rows.error());
  return {};
}

// The service's own side.

namespace {

Status require(pg_conn* connection, bool transaction) {
  switch (PQtransactionStatus(connection)) {
    case PQTRANS_INTRANS:
      if (transaction) return {};
      return fail(Errc::rejected,
                  "a claim with a lease must be durable before the work starts; call it without an "
                  "open transaction");
    case PQTRANS_IDLE:
      if (!transaction) return {};
      return fail(Errc::rejected,
                  "a claim without a lease needs an open transaction, so that it commits together "
                  "with the effect; BEGIN first, COMMIT afterwards");
    case PQTRANS_INERROR:
      return fail(Errc::rejected, "the transaction has failed already; roll it back");
    case PQTRANS_ACTIVE:
      return fail(Errc::rejected,
                  "a statement on this connection is not finished; read its results first");
    case PQTRANS_UNKNOWN:
      break;
  }
  return fail(Errc::unavailable, "the connection is lost; open it again");
}

}  // namespace

Result<Claim::State> claim(pg_conn* transaction, std::string_view consumer, const EventId& id) {
  DOVETAIL_TRY(require(transaction, true));
  const Result<Rows> rows =
      run(transaction, "SELECT dovetail.claim($1, $2)", Params().text(consumer).uuid(id));
  if (!rows) return fail(rows.error());
  return state_of(rows->text(0, 0));
}

Result<Claim> claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                    std::chrono::milliseconds lease) {
  DOVETAIL_TRY(require(connection, false));
  const Result<Rows> rows =
      run(connection,
          "SELECT state, epoch, attempts FROM dovetail.claim($1, $2, $3 * interval '1 "
          "millisecond')",
          Params().text(consumer).uuid(id).int8(lease.count()));
  if (!rows) return fail(rows.error());
  return claim_of(*rows, 0, 0);
}

Status complete_claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                      std::int64_t epoch) {
  const Result<Rows> rows = run(connection, "SELECT dovetail.complete($1, $2, $3)",
                                Params().text(consumer).uuid(id).int8(epoch));
  if (!rows) return fail(rows.error());
  return {};
}

Status fail_claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                  std::int64_t epoch, std::string_view reason,
                  std::optional<std::chrono::milliseconds> retry_after) {
  Params params;
  params.text(consumer).uuid(id).int8(epoch).text(reason);
  if (retry_after) {
    params.int8(retry_after->count());
  } else {
    params.null();
  }
  const Result<Rows> rows =
      run(connection, "SELECT dovetail.fail($1, $2, $3, $4, $5::int8 * interval '1 millisecond')",
          params);
  if (!rows) return fail(rows.error());
  return {};
}

Status release_claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                     std::int64_t epoch) {
  const Result<Rows> rows = run(connection, "SELECT dovetail.release($1, $2, $3)",
                                Params().text(consumer).uuid(id).int8(epoch));
  if (!rows) return fail(rows.error());
  return {};
}

}  // namespace dovetail::postgres
