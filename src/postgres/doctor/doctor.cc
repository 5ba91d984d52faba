#include "postgres/doctor/doctor.h"

#include <libpq-fe.h>

#include <algorithm>

#include "postgres/connection/type_numbers.h"
#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

constexpr Check kNotExamined{Severity::warning, "not-examined", nullptr, "cannot check {part}",
                             "{error}"};

// A check that this role may not make is a finding of its own; the others go on.
Status soften(Status checked, const Connection& connection, std::string_view part,
              Findings& findings) {
  if (checked || !connection) return checked;
  findings.add(kNotExamined, Facts().set("part", part).set("error", checked.error().text));
  return {};
}

Status run_part(Connection& connection, const Part& part, const Facts& known, Findings& findings) {
  return soften(run(connection, part.probes, known, findings), connection, part.name, findings);
}

void set_from(Facts& facts, const Rows& rows, std::size_t row, int column) {
  const std::string_view name = PQfname(rows.get(), column);
  switch (PQftype(rows.get(), column)) {
    case kBool:
      facts.set(name, rows.boolean(row, column));
      return;
    case kInt4:
      facts.set(name, rows.int4(row, column));
      return;
    case kInt8:
      facts.set(name, rows.int8(row, column));
      return;
    default:
      facts.set(name, rows.text(row, column));
  }
}

Status examine_whole(Connection& connection, const std::string& url, const DoctorOptions& options,
                     const Facts& known, Findings& findings) {
  DOVETAIL_TRY(soften(examine_rights(connection, findings), connection, "rights", findings));
  DOVETAIL_TRY(run_part(connection, roles_part(), known, findings));
  DOVETAIL_TRY(run_part(connection, tables_part(), known, findings));
  for (const char* table : {"dovetail.outbox", "dovetail.relay_lane", "dovetail.parked"}) {
    const Result<Rows> oid =
        connection.query("SELECT pg_catalog.to_regclass($1)::oid::int8", Params().text(table));
    if (!oid) return fail(oid.error());
    Facts facts = known;
    facts.set("oid", oid->int8(0, 0));
    DOVETAIL_TRY(soften(run(connection, {vacuum_probe()}, facts, findings), connection, "dead rows",
                        findings));
  }
  DOVETAIL_TRY(
      soften(examine_relays(connection, options, findings), connection, "the backlog", findings));
  for (const Part& part : work_parts()) DOVETAIL_TRY(run_part(connection, part, known, findings));
  return soften(examine_wal(connection, url, options, findings), connection, "the server's WAL",
                findings);
}

}  // namespace

Facts facts_of(const DoctorOptions& options) {
  return Facts()
      .set("payload_bytes_max", options.payload_bytes_max)
      .set("transaction_age_max", options.transaction_age_max)
      .set("prepared_age_max", options.prepared_age_max)
      .set("lag_max", options.lag_max)
      .set("pending_max", options.pending_max)
      .set("clock_skew_max", options.clock_skew_max)
      .set("ahead_min", options.ahead_min)
      .set("dead_rows_max", options.dead_rows_max)
      .set("default_rows_max", options.default_rows_max)
      .set("idle_slot_bytes_max", options.idle_slot_bytes_max)
      .set("catalog_age_max", options.catalog_age_max)
      .set("slot_wait_max", options.slot_wait_max);
}

Result<std::vector<Facts>> ask(Connection& connection, std::string_view sql, const Params& params,
                               const Facts& known) {
  const Result<Rows> rows = connection.query(sql, params);
  if (!rows) return fail(rows.error());
  std::vector<Facts> all(rows->size(), known);
  for (std::size_t row = 0; row < rows->size(); ++row)
    for (int column = 0; column < PQnfields(rows->get()); ++column)
      if (!rows->is_null(row, column)) set_from(all[row], *rows, row, column);
  return all;
}

Status run(Connection& connection, const std::vector<Probe>& probes, const Facts& known,
           Findings& findings) {
  for (const Probe& probe : probes) {
    Params params;
    if (!probe.limit.empty()) params.int8(known.number(probe.limit));
    const auto rows = ask(connection, probe.sql, params, known);
    if (!rows) return fail(rows.error());
    for (const Facts& row : *rows) findings.check(probe.checks, row);
  }
  return {};
}

Result<std::vector<Finding>> examine(const std::string& url, const DoctorOptions& options,
                                     Clock& clock) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  const Facts known = facts_of(options);
  Findings findings;
  examine_transport(transport_of(*connection), "url", findings);
  DOVETAIL_TRY(run_part(*connection, server_part(), known, findings));
  DOVETAIL_TRY(soften(examine_clock(*connection, options, clock, findings), *connection,
                      "the clock", findings));
  const Result<bool> schema = examine_schema(*connection, known, findings);
  if (!schema)
    DOVETAIL_TRY(soften(fail(schema.error()), *connection, "the schema dovetail", findings));
  const bool is_whole = schema.value_or(false);
  if (is_whole) DOVETAIL_TRY(examine_whole(*connection, url, options, known, findings));
  for (const auto& [relay, mapping] : options.mapped)
    DOVETAIL_TRY(soften(examine_mapping(*connection, relay, mapping, is_whole, options, findings),
                        *connection, "the mapping of " + mapping.table, findings));
  std::vector<Finding> all = findings.take();
  std::stable_sort(all.begin(), all.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return all;
}

}  // namespace dovetail::postgres
