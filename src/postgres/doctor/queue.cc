// Queues that nobody works on, or that need an operator.
#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

constexpr std::string_view kQueues =
    "SELECT c.name, count(*) FILTER (WHERE q.parked_number IS NOT NULL), count(*) FILTER (WHERE "
    "q.is_ready), coalesce(EXTRACT(epoch FROM clock_timestamp() - min(q.due) FILTER (WHERE "
    "q.is_ready)) * 1000000, 0)::int8, count(*) FILTER (WHERE q.waiting AND NOT EXISTS (SELECT 1 "
    "FROM dovetail.queue AS p WHERE p.consumer_id = q.consumer_id AND p.key_hash = q.key_hash AND "
    "p.number < q.number)) FROM (SELECT a.*, NOT a.waiting AND a.parked_number IS NULL AND a.due "
    "<= clock_timestamp() AS is_ready FROM dovetail.queue AS a) AS q JOIN dovetail.consumer AS c "
    "ON c.id = q.consumer_id GROUP BY c.name ORDER BY c.name";

}  // namespace

Status examine_queues(Connection& connection, const DoctorOptions& options, Findings& findings) {
  const Result<Rows> rows = connection.query(kQueues);
  if (!rows) return fail(rows.error());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const std::string queue = "the queue of \"" + std::string(rows->text(i, 0)) + "\"";
    const std::int64_t parked = rows->int8(i, 1);
    const Duration late{rows->int8(i, 3)};
    if (parked > 0)
      findings.add(Severity::warning, "queue-parked",
                   queue + " has " + std::to_string(parked) +
                       " parked events; their keys wait for an operator",
                   "list them with `dovetail parked list`, then replay or discard them");
    if (late > options.lag_max)
      findings.add(Severity::warning, "queue-backlog",
                   queue + " has " + std::to_string(rows->int8(i, 2)) +
                       " events ready for a worker, the oldest for " + shown(late),
                   "check that workers call dovetail.receive() with this name, and start more "
                   "workers if they are busy");
    if (rows->int8(i, 4) > 0)
      findings.add(Severity::error, "queue-stuck",
                   queue + " has " + std::to_string(rows->int8(i, 4)) +
                       " events that wait behind no event: rows were changed manually",
                   "run UPDATE dovetail.queue SET waiting = false WHERE waiting, which is safe at "
                   "any time");
  }
  return {};
}

}  // namespace dovetail::postgres
