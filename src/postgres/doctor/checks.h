// The parts of the doctor. Each adds what it finds; an error means that the database could not be
// asked any more.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "postgres/connection/connection.h"
#include "postgres/doctor/doctor.h"

namespace dovetail::postgres {

class Findings {
 public:
  void add(Severity severity, std::string code, std::string what, std::string what_to_do) {
    all_.push_back(Finding{severity, std::move(code), std::move(what), std::move(what_to_do)});
  }
  std::vector<Finding> take() { return std::move(all_); }

 private:
  std::vector<Finding> all_;
};

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

// The server: version, standby, settings, open and prepared transactions, clock.
Status examine_server(Connection& connection, const DoctorOptions& options, Clock& clock,
                      Findings& findings);
// The schema dovetail: version, drift, rights, partitions, dead rows. False: it is not whole.
Result<bool> examine_schema(Connection& connection, const DoctorOptions& options,
                            Findings& findings);
// What this user may do; rights that the roles have beyond their work; grants of workers that give
// no right.
Status examine_roles(Connection& connection, Findings& findings);
// Relays that do not run, lag behind or have parked events.
Status examine_backlog(Connection& connection, const DoctorOptions& options, Findings& findings);
// Queues with parked events, and those that nobody works on.
Status examine_queues(Connection& connection, const DoctorOptions& options, Findings& findings);
// Consumers that died, and an inbox that cannot be kept small.
Status examine_inbox(Connection& connection, const DoctorOptions& options, Findings& findings);
// A table that a relay serves as it is, and that relay if the schema is whole.
Status examine_mapping(Connection& connection, const std::string& relay,
                       const TableMapping& mapping, bool schema_is_whole,
                       const DoctorOptions& options, Findings& findings);
// What those need who read the server's log, and the slots that keep it.
// `url`: that of `connection`.
Status examine_log(Connection& connection, const std::string& url, const DoctorOptions& options,
                   Findings& findings);
// Writes a message into the log and sees it come out, as a relay would. Adds a finding when it does
// not. `conninfo`: for the connection that replicates.
Status prove_log(Connection& connection, const std::string& conninfo, const DoctorOptions& options,
                 Findings& findings);
// Dead rows and autovacuum of one table.
Status examine_vacuum(Connection& connection, std::int64_t oid, const DoctorOptions& options,
                      Findings& findings);

// How one relay does: whether every lane is served, how many events are before it, and how old the
// oldest is.
void examine_lag(const std::string& relay, bool is_served, std::uint64_t pending, Duration lag,
                 const DoctorOptions& options, Findings& findings);

// "3 minutes", for people.
std::string shown(Duration duration);
// "64 MiB", for people.
std::string shown_bytes(std::int64_t bytes);

}  // namespace dovetail::postgres
