// A folder with a config file, and the processes of the binary that run in it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace dovetail::bench {

// Waits at most a minute; ends the program when that was not enough.
void wait_for(const std::string& what, const std::function<bool()>& holds);

class House {
 public:
  // Writes the config file, and makes the tables of its stores.
  explicit House(const std::string& config);
  ~House();
  House(const House&) = delete;
  House& operator=(const House&) = delete;

  void run(const std::vector<std::string>& arguments) const;
  void start() { daemon_ = spawn({"run"}, "daemon.log"); }
  pid_t daemon() const { return daemon_; }
  std::string log() const;  // of the daemon
  void wait_for_log(const std::string& part) const;
  void kill_now();
  // Milliseconds from the signal to the end of the process.
  double stop();
  // Milliseconds from the signal until the daemon says that it has it.
  double answer();
  std::string path(const std::string& name) const { return folder_ / name; }

 private:
  pid_t spawn(std::vector<std::string> arguments, const std::string& output) const;

  const std::filesystem::path folder_;
  pid_t daemon_ = 0;
};

}  // namespace dovetail::bench
