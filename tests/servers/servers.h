// How tests find the real servers that servers.py has started.
#pragma once

#include <optional>
#include <string>

namespace dovetail::servers {

// How to reach the server `name`, or why it is not there.
struct Server {
  std::string conninfo{};
  std::string missing{};
};

Server find(const std::string& name);

// For servers that few tests need: starts it now, and stops it at the end of the process.
class Started {
 public:
  explicit Started(std::string name);
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started();
  const Server& server() const { return server_; }

 private:
  std::string name_;
  Server server_;
};

// `conninfo` with another database.
std::string with_database(const std::string& conninfo, const std::string& database);

}  // namespace dovetail::servers
