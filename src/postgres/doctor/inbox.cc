// Consumers and their inboxes.
#include "postgres/doctor/checks.h"
#include "postgres/lane/lease.h"

namespace dovetail::postgres {

namespace {

// Where its reader is in this database, a consumer that nobody runs is known as such.
const std::string kDied =
    "SELECT c.name FROM dovetail.consumer c WHERE EXISTS (SELECT 1 FROM dovetail.consumer_session "
    "l "
    "WHERE l.consumer_id = c.id AND NOT l.clean) AND EXISTS (SELECT 1 FROM dovetail.relay_lane r "
    "WHERE "
    "r.relay = c.name) AND NOT EXISTS (SELECT 1 FROM dovetail.relay_lane r WHERE r.relay = c.name "
    "AND " +
    std::string(kIsHeld) + ") ORDER BY c.name";

constexpr std::string_view kDefaultRows =
    "SELECT greatest(c.reltuples, 0)::int8, (SELECT count(*) FROM pg_catalog.pg_inherits i WHERE "
    "i.inhparent = 'dovetail.inbox'::pg_catalog.regclass) FROM pg_catalog.pg_class c WHERE c.oid = "
    "'dovetail.inbox_default'::pg_catalog.regclass AND EXISTS (SELECT 1 FROM dovetail.consumer)";

// A clock was wrong when rows were deleted.
constexpr std::string_view kAhead =
    "SELECT c.name, f.until::text FROM dovetail.forgetting f JOIN dovetail.consumer c ON c.id = "
    "f.consumer_id WHERE f.until > pg_catalog.clock_timestamp() + interval '1 hour' ORDER BY "
    "c.name";

Status examine_line(Connection& connection, Findings& findings) {
  const Result<Rows> rows = connection.query(kAhead);
  if (!rows) return fail(rows.error());
  for (std::size_t i = 0; i < rows->size(); ++i)
    findings.add(
        Severity::error, "inbox-forgets-new-events",
        "the consumer \"" + std::string(rows->text(i, 0)) + "\" parks every event up to " +
            std::string(rows->text(i, 1)) +
            " as possibly forgotten, and that time is in the future: a clock was wrong when "
            "old rows were deleted",
        "find the time of that deletion and run `dovetail inbox remember --since` with it");
  return {};
}

}  // namespace

Status examine_inbox(Connection& connection, const DoctorOptions& options, Findings& findings) {
  DOVETAIL_TRY(examine_line(connection, findings));
  const Result<Rows> died = connection.query(kDied);
  if (!died) return fail(died.error());
  for (std::size_t i = 0; i < died->size(); ++i)
    findings.add(Severity::warning, "consumer-died",
                 "the last session of the consumer \"" + std::string(died->text(i, 0)) +
                     "\" did not end cleanly, perhaps because of a handler, and no process runs it "
                     "now",
                 "check its log and start it: it tries events one by one, finds the one that ends "
                 "the process, and parks it");
  const Result<Rows> rows = connection.query(kDefaultRows);
  if (!rows) return fail(rows.error());
  if (rows->empty()) return {};
  if (rows->int8(0, 1) < 2)
    findings.add(
        Severity::warning, "inbox-partitions",
        "the inbox has no partitions: all rows are in the default partition, where old "
        "rows are deleted one by one",
        "run `dovetail prune` as the owner of the schema, regularly, or let `dovetail run` "
        "do so");
  if (static_cast<std::uint64_t>(rows->int8(0, 0)) > options.default_rows_max)
    findings.add(
        Severity::warning, "inbox-default",
        "the default partition of the inbox has about " + std::to_string(rows->int8(0, 0)) +
            " rows, which are deleted one by one: their event ids are not UUIDs of version 7, "
            "or their times have no partition",
        "use ids of version 7 in producers, or shorten retention.inbox");
  return {};
}

}  // namespace dovetail::postgres
