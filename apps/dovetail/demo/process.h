// A child process: started, killed, stopped, waited for. One thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace dovetail::shop {

class Process {
 public:
  Process() = default;
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // kills it if it still runs

  // Appends its output to `log_file`. It dies with this process. Invalid if it could not be
  // started.
  static Process start(const std::vector<std::string>& command, const std::string& log_file);

  bool valid() const { return pid_ > 0; }
  bool running();
  int pid() const { return pid_; }
  void send(int signal) const;
  // SIGKILL; the process is gone when this returns.
  void kill();
  // Waits for the end: the exit code, or 128 + signal. Empty if it did not end in time.
  std::optional<int> wait(std::chrono::milliseconds wait_max);

 private:
  void note_end(int status);

  int pid_ = 0;
  std::optional<int> exit_code_;
};

// The path of this program, to start it again in another role.
std::string own_program();

}  // namespace dovetail::shop
