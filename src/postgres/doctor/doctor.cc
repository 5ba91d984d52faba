#include "postgres/doctor/doctor.h"

#include <algorithm>

#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

// A check that this role may not make is a finding of its own; the others go on.
Status soften(Status checked, const Connection& connection, std::string_view part,
              Findings& findings) {
  if (checked || !connection) return checked;
  findings.add(Severity::warning, "not-examined", "cannot check " + std::string(part),
               checked.error().text);
  return {};
}

}  // namespace

// Publishers in SQL are bound by the table, the others by the config.
static Status examine_limit(Connection& connection, const DoctorOptions& options,
                            Findings& findings) {
  if (options.payload_bytes_max == 0) return {};
  const Result<Rows> rows =
      connection.query("SELECT coalesce(payload_bytes_max, 0) FROM dovetail.outbox_limit");
  if (!rows) return fail(rows.error());
  if (rows->empty()) return {};
  const std::int64_t allowed = rows->int8(0, 0);
  if (allowed > 0 && static_cast<std::size_t>(allowed) <= options.payload_bytes_max) return {};
  findings.add(Severity::warning, "payload-limit",
               "SQL may publish payloads of " +
                   (allowed == 0 ? "any size" : std::to_string(allowed) + " bytes") +
                   ", but payload_max of this store is " +
                   std::to_string(options.payload_bytes_max) +
                   ", and doctor compares brokers with payload_max",
               "set payload_max of the store to the limit in dovetail.outbox_limit");
  return {};
}

Result<std::vector<Finding>> examine(const std::string& url, const DoctorOptions& options,
                                     Clock& clock) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  Findings findings;
  examine_transport(transport_of(*connection), "url", findings);
  DOVETAIL_TRY(soften(examine_server(*connection, options, clock, findings), *connection,
                      "the server", findings));
  const Result<bool> schema = examine_schema(*connection, options, findings);
  if (!schema)
    DOVETAIL_TRY(soften(fail(schema.error()), *connection, "the schema dovetail", findings));
  if (schema && *schema)
    DOVETAIL_TRY(soften(examine_backlog(*connection, options, findings), *connection, "the backlog",
                        findings));
  if (schema && *schema)
    DOVETAIL_TRY(soften(examine_limit(*connection, options, findings), *connection,
                        "the limit of payloads", findings));
  if (schema && *schema)
    DOVETAIL_TRY(soften(examine_queues(*connection, options, findings), *connection, "the queues",
                        findings));
  if (schema && *schema)
    DOVETAIL_TRY(
        soften(examine_inbox(*connection, options, findings), *connection, "the inbox", findings));
  if (schema && *schema)
    DOVETAIL_TRY(soften(examine_log(*connection, url, options, findings), *connection,
                        "the server's log", findings));
  for (const auto& [relay, mapping] : options.mapped)
    DOVETAIL_TRY(
        soften(examine_mapping(*connection, relay, mapping, schema && *schema, options, findings),
               *connection, "the mapping of " + mapping.table, findings));
  std::vector<Finding> all = findings.take();
  std::stable_sort(all.begin(), all.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return all;
}

}  // namespace dovetail::postgres
