#include "servers/servers.h"

#include <cstdlib>
#include <fstream>

namespace dovetail::servers {

namespace {

std::string state_folder() {
  const char* other = std::getenv("DOVETAIL_SERVERS");
  return other != nullptr ? other : DOVETAIL_SERVERS;
}

std::string first_line(const std::string& file) {
  std::ifstream in(state_folder() + "/" + file);
  std::string line;
  std::getline(in, line);
  return line;
}

int run_script(const std::string& action, const std::string& name) {
  const std::string command = "python3 '" DOVETAIL_SERVERS_SCRIPT "' --state '" + state_folder() +
                              "' " + action + " " + name + " >/dev/null";
  return std::system(command.c_str());
}

}  // namespace

Server find(const std::string& name) {
  Server server;
  server.conninfo = first_line(name + ".conninfo");
  server.missing = first_line(name + ".missing");
  if (server.conninfo.empty() && server.missing.empty())
    server.missing = name +
                     " was not started; run the tests through ctest, or start it with "
                     "tests/servers/servers.py --state " +
                     state_folder() + " start " + name;
  return server;
}

Started::Started(std::string name) : name_(std::move(name)) {
  const int code = run_script("start", name_);
  server_ = find(name_);
  if (code != 0) server_ = Server{{}, "servers.py could not start " + name_};
}

Started::~Started() { run_script("stop", name_); }

bool Started::crash() { return run_script("crash", name_) == 0; }

std::string with_database(const std::string& conninfo, const std::string& database) {
  return conninfo + " dbname=" + database;
}

}  // namespace dovetail::servers
