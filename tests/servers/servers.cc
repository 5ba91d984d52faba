#include "servers/servers.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dovetail::servers {

namespace {

std::string state_folder() {
  const char* other = std::getenv("DOVETAIL_SERVERS");
  return other != nullptr ? other : DOVETAIL_SERVERS;
}

// For the version that DOVETAIL_POSTGRES in the environment asks for: "new".
std::string of_version(const std::string& name) {
  const char* version = std::getenv("DOVETAIL_POSTGRES");
  const bool has_versions = name == "postgres" || name == "standby";
  return has_versions && version != nullptr ? name + "_" + version : name;
}

std::string first_line(const std::string& state, const std::string& file) {
  std::ifstream in(state + "/" + file);
  std::string line;
  std::getline(in, line);
  return line;
}

int run_script(const std::string& state, const std::string& action, const std::string& name) {
  const std::string command = "python3 '" DOVETAIL_SERVERS_SCRIPT "' --state '" + state + "' " +
                              action + " " + name + " >/dev/null";
  return std::system(command.c_str());
}

Server find_in(const std::string& state, const std::string& name) {
  Server server;
  server.conninfo = first_line(state, name + ".conninfo");
  server.missing = first_line(state, name + ".missing");
  if (server.conninfo.empty() && server.missing.empty())
    server.missing = name +
                     " was not started; run the tests through ctest, or start it with "
                     "tests/servers/servers.py --state " +
                     state + " start " + name;
  return server;
}

}  // namespace

std::string Server::field(const std::string& key) const {
  std::istringstream words(conninfo);
  for (std::string word; words >> word;) {
    if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
  }
  return {};
}

Server find(const std::string& name) { return find_in(state_folder(), of_version(name)); }

namespace {

// Separate from the shared servers: other test processes may start one with the same name.
std::string own_folder() {
  const std::string folder = state_folder() + "/of_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const std::string postgres = of_version("postgres") + ".conninfo";
  if (std::filesystem::exists(state_folder() + "/" + postgres)) {
    std::filesystem::copy_file(state_folder() + "/" + postgres, folder + "/" + postgres,
                               std::filesystem::copy_options::overwrite_existing);
  }
  return folder;
}

}  // namespace

Started::Started(const std::string& name, std::string state)
    : name_(of_version(name)), state_(state.empty() ? own_folder() : std::move(state)) {
  const int code = run_script(state_, "start", name_);
  server_ = find_in(state_, name_);
  if (code != 0) server_ = Server{{}, "servers.py could not start " + name_};
}

Started::~Started() { run_script(state_, "stop", name_); }

bool Started::crash() { return run_script(state_, "crash", name_) == 0; }
bool Started::kill() { return run_script(state_, "kill", name_) == 0; }
bool Started::again() { return run_script(state_, "again", name_) == 0; }

int Started::pid() const { return std::atoi(first_line(state_, name_ + ".pid").c_str()); }

std::string with_database(const std::string& conninfo, const std::string& database) {
  return conninfo + " dbname=" + database;
}

}  // namespace dovetail::servers
