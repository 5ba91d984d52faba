// The other side of the benchmarks on PostgreSQL: libpq with nothing around it, as a careful
// programmer would use it, on a server that is started for the benchmark.
#pragma once

#include <string>
#include <vector>

#include "report.h"

struct pg_conn;
struct pg_result;

namespace dovetail::bench {

// Ends the program when something is not as it must be.
void require(bool ok, const std::string& what);

// One thread at a time. Whatever fails ends the program.
class Raw {
 public:
  explicit Raw(const std::string& conninfo);
  ~Raw();
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  pg_conn* get() const { return connection_; }
  int backend() const;
  void run(const char* sql) const;
  void prepare(const char* name, const char* sql) const;
  // The caller frees what these return.
  pg_result* prepared(const char* name, std::vector<const char*> values, int binary = 0) const;
  pg_result* with_params(const char* sql, std::vector<const char*> values) const;

 private:
  pg_result* checked(pg_result* result) const;
  pg_conn* connection_;
};

// User and system time of a process, such as a backend of the server on this machine.
double process_cpu_seconds(int pid);

// Starts a server, makes a database with dovetail's schema, runs the wanted
// parts of the benchmark in it, and stops the server. Returns the exit code.
int on_postgres(const std::string& name, const std::vector<std::string>& wanted,
                void (*benchmark)(const std::string& conninfo, Report& report,
                                  const std::vector<std::string>& wanted));

}  // namespace dovetail::bench
