// Finds the real servers that servers.py has started, in the folder of the build or in
// DOVETAIL_SERVERS. With DOVETAIL_POSTGRES=new in the environment, "postgres" and "standby" are
// those of the newer version.
#pragma once

#include <optional>
#include <string>

namespace dovetail::servers {

// How to reach the server `name`, or why it is missing.
struct Server {
  std::string conninfo{};  // one line of KEY=VALUE pairs, for every kind of server
  std::string missing{};

  std::string field(const std::string& key) const;  // from conninfo; empty: missing
  int port() const { return std::stoi(field("port")); }
};

Server find(const std::string& name);

// For rarely needed servers: starts one now, and stops it at the end of the scope. A server in its
// own folder `state` does not affect other tests and may be broken.
class Started {
 public:
  explicit Started(const std::string& name, std::string state = "");
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started();
  const Server& server() const { return server_; }
  // Kills it, like a power cut, and starts it again. False: it did not come back.
  bool crash();
  bool kill();      // the first half of it
  bool again();     // and the second
  int pid() const;  // of its main process; 0: not started

 private:
  std::string name_;
  std::string state_;
  Server server_;
};

// `conninfo` with another database.
std::string with_database(const std::string& conninfo, const std::string& database);

}  // namespace dovetail::servers
