#include "raw_postgres.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "dovetail/postgres.h"

namespace dovetail::bench {

namespace {

int servers(const char* words) {
  return std::system(
      fmt::format("python3 tests/servers/servers.py --state build/bench/servers {}", words)
          .c_str());
}

}  // namespace

void require(bool ok, const std::string& what) {
  if (ok) return;
  give_up(what);
}

Raw::Raw(const std::string& conninfo) : connection_(PQconnectdb(conninfo.c_str())) {
  require(PQstatus(connection_) == CONNECTION_OK, PQerrorMessage(connection_));
}

Raw::~Raw() { PQfinish(connection_); }

int Raw::backend() const { return PQbackendPID(connection_); }

void Raw::run(const char* sql) const { PQclear(checked(PQexec(connection_, sql))); }

void Raw::prepare(const char* name, const char* sql) const {
  PQclear(checked(PQprepare(connection_, name, sql, 0, nullptr)));
}

PGresult* Raw::prepared(const char* name, std::vector<const char*> values, int binary) const {
  return checked(PQexecPrepared(connection_, name, static_cast<int>(values.size()), values.data(),
                                nullptr, nullptr, binary));
}

PGresult* Raw::with_params(const char* sql, std::vector<const char*> values) const {
  return checked(PQexecParams(connection_, sql, static_cast<int>(values.size()), nullptr,
                              values.data(), nullptr, nullptr, 0));
}

PGresult* Raw::checked(PGresult* result) const {
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    require(false, PQerrorMessage(connection_));
  }
  return result;
}

double process_cpu_seconds(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  require(!text.empty(), "a process whose CPU time is wanted is gone");
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int on_postgres(const std::string& name, const std::vector<std::string>& wanted,
                void (*benchmark)(const std::string& conninfo, Report& report,
                                  const std::vector<std::string>& wanted)) {
  if (servers("start postgres") != 0) return 2;
  std::atexit([] { (void)servers("stop > /dev/null"); });
  std::ifstream file("build/bench/servers/postgres.conninfo");
  std::string server;
  std::getline(file, server);
  if (server.empty()) {
    fmt::print(stderr, "bench: there is no PostgreSQL server to start; install postgresql-15\n");
    return 2;
  }
  Raw(server).run("CREATE DATABASE bench");
  const std::string conninfo = server + " dbname=bench";
  {
    const Raw db(conninfo);
    const Status made = postgres::create_schema(db.get());
    require(made.has_value(), made ? "" : made.error().text);
  }
  Report report(name);
  benchmark(conninfo, report, wanted);
  return report.finish();
}

}  // namespace dovetail::bench
