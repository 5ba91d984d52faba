// How tests find the real servers that servers.py has started. Their folder is that of the build,
// unless DOVETAIL_SERVERS in the environment names another. With DOVETAIL_POSTGRES=new there,
// "postgres" and "standby" are those of the newer version.
#pragma once

#include <optional>
#include <string>

namespace dovetail::servers {

// How to reach the server `name`, or why it is not there.
struct Server {
  std::string conninfo{};  // one line of KEY=VALUE, for every kind of server
  std::string missing{};

  std::string field(const std::string& key) const;  // of conninfo; empty: not there
  int port() const { return std::stoi(field("port")); }
};

Server find(const std::string& name);

// For servers that few tests need: starts it now, and stops it at the end of the scope. In a folder
// `state` of their own servers are of no concern to other tests, and may be broken.
class Started {
 public:
  explicit Started(const std::string& name, std::string state = "");
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started();
  const Server& server() const { return server_; }
  // Ends it at once, as a loss of power would, and starts it again. False: it did not come back.
  bool crash();
  bool kill();      // the first half of it
  bool again();     // and the second
  int pid() const;  // of its first process; 0: it was not started

 private:
  std::string name_;
  std::string state_;
  Server server_;
};

// `conninfo` with another database.
std::string with_database(const std::string& conninfo, const std::string& database);

}  // namespace dovetail::servers
