#include "demo/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <utility>

namespace dovetail::shop {

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      exit_code_(std::exchange(other.exit_code_, std::nullopt)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    kill();
    pid_ = std::exchange(other.pid_, 0);
    exit_code_ = std::exchange(other.exit_code_, std::nullopt);
  }
  return *this;
}

Process::~Process() { kill(); }

Process Process::start(const std::vector<std::string>& command, const std::string& log_file) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  Process process;
  process.pid_ = ::fork();
  if (process.pid_ == 0) {
    // In the child, until exec: only system calls.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (log >= 0) {
      ::dup2(log, STDOUT_FILENO);
      ::dup2(log, STDERR_FILENO);
    }
    if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    // Its own group: Ctrl-C is for the parent, which ends its children in order.
    ::setpgid(0, 0);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  return process;
}

void Process::note_end(int status) {
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool Process::running() {
  if (pid_ <= 0 || exit_code_) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  note_end(status);
  return false;
}

void Process::send(int signal) const {
  if (pid_ > 0 && !exit_code_) ::kill(pid_, signal);
}

void Process::kill() {
  if (!running()) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  note_end(status);
}

std::optional<int> Process::wait(std::chrono::milliseconds wait_max) {
  const auto deadline = std::chrono::steady_clock::now() + wait_max;
  while (running()) {
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return exit_code_;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace dovetail::shop
