// A child process with its own process group; input from memory, errors through a pipe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::command {

struct ProcessStart {
  std::string program;                 // a path
  std::vector<std::string> arguments;  // argv, including the program's name
  std::vector<std::string> environment;
  std::string_view input;  // on its standard input; copied
};

// How it ended: by an exit code, or by a signal.
struct Ending {
  int exit_code = 0;
  int signal = 0;  // 0: it exited
};

// The destructor kills it with its group and waits for it. The kernel kills it when the thread that
// started it ends.
class Process {
 public:
  // unavailable: it could not be started; the text ends with what to check.
  static Result<std::unique_ptr<Process>> start(const ProcessStart& start);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  // Waits at most `timeout` until one of them ends or writes to standard error, and reads that
  // output.
  static void wait_any(std::span<Process* const> processes, Duration timeout);

  // Whether it has ended; then ending() is valid.
  bool has_ended();
  const Ending& ending() const { return ending_; }
  void kill_group() const;
  // The last kilobytes that it wrote to standard error.
  std::string_view errors() const { return errors_; }

 private:
  Process() = default;
  void read_errors();

  int pid_ = -1;
  int watch_ = -1;  // becomes readable when it ends
  int errors_from_ = -1;
  bool ended_ = false;
  Ending ending_{};
  std::string errors_;
};

}  // namespace dovetail::command
