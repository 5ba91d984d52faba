// The parts of the doctor. Each adds what it finds; an error means that the database could not be
// asked any more.
#pragma once

#include <string>
#include <vector>

#include "core/findings.h"
#include "postgres/connection/connection.h"
#include "postgres/doctor/doctor.h"

namespace dovetail::postgres {

// A question to the database. Each row of the answer is looked at with `checks`: the facts are its
// columns and the limits of DoctorOptions.
struct Probe {
  std::string_view sql;
  std::vector<Check> checks;
  std::string_view limit{};  // the fact that is $1, an int8; empty: there is no $1
};

// Probes of one subject. After the first that this user may not ask, the others are left out.
struct Part {
  std::string_view name;
  std::vector<Probe> probes;
};

const Part& server_part();
const Part& roles_part();
// What is wrong with a schema that is whole: partitions, the limit of payloads.
const Part& tables_part();
// Events that wait: parked ones, queues, inboxes.
const std::vector<Part>& work_parts();
const Probe& vacuum_probe();  // of the table with the fact "oid"

// The limits as facts, with the names of their fields.
Facts facts_of(const DoctorOptions& options);
// A row for each; columns that are null are left out. `known` is in each of them.
Result<std::vector<Facts>> ask(Connection& connection, std::string_view sql,
                               const Params& params = {}, const Facts& known = {});
Status run(Connection& connection, const std::vector<Probe>& probes, const Facts& known,
           Findings& findings);

// How a connection got to its server.
struct Transport {
  std::string host{};  // as the settings name it; a folder for a socket
  std::string address{};
  std::string sslmode{};
  bool is_encrypted = false;
};
Transport transport_of(const Connection& connection);
// A connection that leaves this machine, and does not prove whose server it reached. `setting`: of
// which it is, "url".
void examine_transport(const Transport& transport, std::string_view setting, Findings& findings);

Status examine_clock(Connection& connection, const DoctorOptions& options, Clock& clock,
                     Findings& findings);
// The schema dovetail: version and drift. False: it is not whole.
Result<bool> examine_schema(Connection& connection, const Facts& known, Findings& findings);
// SQL that puts the rights that `names` returns, as dovetail.schema_objects() names them, into one
// row for each object and role: "SELECT, UPDATE (epoch, owner) ON dovetail.relay_lane TO
// dovetail_relay".
std::string rights_by_place(const std::string& names);
// What this user may do.
Status examine_rights(Connection& connection, Findings& findings);
// Relays that do not run or lag behind.
Status examine_relays(Connection& connection, const DoctorOptions& options, Findings& findings);
// A table that a relay serves as it is, and that relay if the schema is whole.
Status examine_mapping(Connection& connection, const std::string& relay,
                       const TableMapping& mapping, bool schema_is_whole,
                       const DoctorOptions& options, Findings& findings);
// What those need who read the WAL, and the slots that keep it. `url`: that of `connection`.
Status examine_wal(Connection& connection, const std::string& url, const DoctorOptions& options,
                   Findings& findings);
// Writes a message into the WAL and sees it come out, as a relay would. Adds a finding when it does
// not. `conninfo`: for the connection that replicates.
Status prove_wal(Connection& connection, const std::string& conninfo, const DoctorOptions& options,
                 Findings& findings);

// How one relay does. The facts: relay, is_served, pending and lag, where it is known.
void examine_lag(Facts relay, Findings& findings);

}  // namespace dovetail::postgres
