#include "command/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dovetail::command {

namespace {

constexpr std::size_t kErrorsKept = 4096;

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_;
};

// The child gets its descriptors 0, 1 and 2 one by one, so none of ours may have these numbers.
Descriptor above_standard(int number) {
  Descriptor given(number);
  if (number < 0 || number > 2) return given;
  return Descriptor(::fcntl(number, F_DUPFD_CLOEXEC, 3));
}

bool make_pipe(Descriptor& read_end, Descriptor& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  read_end = above_standard(ends[0]);
  write_end = above_standard(ends[1]);
  return read_end && write_end;
}

// A memory file instead of a pipe: nobody must keep writing while the program reads, or notice that
// it does not read.
Descriptor input_of(std::string_view input) {
  Descriptor file = above_standard(::memfd_create("event", MFD_CLOEXEC));
  while (file && !input.empty()) {
    const ssize_t written = ::write(file.get(), input.data(), input.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Descriptor();
    input.remove_prefix(static_cast<std::size_t>(written));
  }
  if (file && ::lseek(file.get(), 0, SEEK_SET) != 0) return Descriptor();
  return file;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that the child needs, prepared before vfork(): until exec, the child shares our memory
// and may call very little.
struct Child {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int input;
  int output;
  int errors;
  int trouble;  // receives errno if exec fails
  pid_t parent;
};

[[noreturn]] void become_program(const Child& child) {
  sigset_t none;
  ::sigemptyset(&none);
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  for (const int number : {SIGPIPE, SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2})
    ::sigaction(number, &usual, nullptr);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool is_orphan = ::getppid() != child.parent;  // the parent died before the line above
  const bool is_ready = !is_orphan && ::dup2(child.input, 0) == 0 && ::dup2(child.output, 1) == 1 &&
                        ::dup2(child.errors, 2) == 2 &&
                        ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
  if (is_ready) ::execve(child.program, child.arguments, child.environment);
  const int code = errno;
  const ssize_t told = ::write(child.trouble, &code, sizeof code);
  ::_exit(told == sizeof code ? 127 : 126);
}

// A separate function, because changes by the child of vfork() in this frame stay. posix_spawn()
// cannot set a parent-death signal.
// NOLINTBEGIN(bugprone-unsafe-functions,clang-analyzer-unix.Vfork)
[[gnu::noinline]] pid_t start_child(const Child& child) {
  const pid_t pid = ::vfork();
  if (pid == 0) become_program(child);
  return pid;
}
// NOLINTEND(bugprone-unsafe-functions,clang-analyzer-unix.Vfork)

// 0: the program was started.
int trouble_of(int from) {
  int code = 0;
  for (;;) {
    const ssize_t got = ::read(from, &code, sizeof code);
    if (got < 0 && errno == EINTR) continue;
    return got == sizeof code ? code : 0;
  }
}

auto cannot(std::string_view what, int code) {
  return fail(Errc::unavailable, std::string(what) + ": " + std::strerror(code) +
                                     "; check the limits of processes, "
                                     "memory and open files");
}

}  // namespace

Result<std::unique_ptr<Process>> Process::start(const ProcessStart& start) {
  const Descriptor input = input_of(start.input);
  const Descriptor output = above_standard(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Descriptor errors_from;
  Descriptor errors_to;
  Descriptor trouble_from;
  Descriptor trouble_to;
  if (!input || !output || !make_pipe(errors_from, errors_to) ||
      !make_pipe(trouble_from, trouble_to))
    return cannot("cannot create the input and output of a program", errno);
  ::fcntl(errors_from.get(), F_SETFL, O_NONBLOCK);

  const std::vector<char*> arguments = pointers_to(start.arguments);
  const std::vector<char*> environment = pointers_to(start.environment);
  const Child child{start.program.c_str(), arguments.data(), environment.data(), input.get(),
                    output.get(),          errors_to.get(),  trouble_to.get(),   ::getpid()};
  // The child shares our memory, so our signal handlers must not run in it.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = start_child(child);
  const int fork_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return cannot("cannot start a process", fork_error);
  std::unique_ptr<Process> process(new Process);
  process->pid_ = pid;
  // Some C libraries declare it in a header that C++ cannot include.
  process->watch_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  const int watch_error = errno;
  trouble_to = Descriptor();
  const int trouble = trouble_of(trouble_from.get());
  process->errors_from_ = errors_from.release();
  if (trouble != 0)
    return fail(Errc::unavailable,
                start.program + " cannot run: " + std::strerror(trouble) +
                    "; check that it exists, is executable and, if it is a script, begins with "
                    "#!");
  if (process->watch_ < 0) return cannot("cannot watch a process", watch_error);
  return process;
}

Process::~Process() {
  if (!ended_) {
    kill_group();
    // It ends soon, unless it is blocked in the kernel.
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (watch_ >= 0) ::close(watch_);
  if (errors_from_ >= 0) ::close(errors_from_);
}

void Process::kill_group() const {
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // in case it left its group
}

void Process::wait_any(std::span<Process* const> processes, Duration timeout) {
  std::vector<pollfd> watched;
  for (const Process* process : processes) {
    watched.push_back({process->watch_, POLLIN, 0});
    watched.push_back({process->errors_from_, POLLIN, 0});
  }
  const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  const int limit = static_cast<int>(std::clamp<long long>(wait_ms, 0, 60'000));
  if (::poll(watched.data(), static_cast<nfds_t>(watched.size()), limit) <= 0) return;
  for (std::size_t i = 0; i < processes.size(); ++i)
    if (watched[2 * i + 1].revents != 0) processes[i]->read_errors();
}

void Process::read_errors() {
  if (errors_from_ < 0) return;
  // Bounded, in case the program writes faster than we read.
  for (int round = 0; round < 64; ++round) {
    char bytes[4096];
    const ssize_t got = ::read(errors_from_, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;  // nothing to read now
    if (got == 0) {
      // The program closed its end, which would stay readable for ever.
      ::close(std::exchange(errors_from_, -1));
      return;
    }
    errors_.append(bytes, static_cast<std::size_t>(got));
    if (errors_.size() > kErrorsKept) errors_.erase(0, errors_.size() - kErrorsKept);
  }
}

bool Process::has_ended() {
  if (ended_) return true;
  siginfo_t info{};
  if (::waitid(P_PIDFD, static_cast<id_t>(watch_), &info, WEXITED | WNOHANG) != 0) {
    if (errno == EINTR) return false;
    // Other code in this process has waited for it, so its exit code is unknown.
    ending_ = Ending{-1, 0};
    ended_ = true;
    return true;
  }
  if (info.si_pid == 0) return false;
  ended_ = true;
  ending_ = info.si_code == CLD_EXITED ? Ending{info.si_status, 0} : Ending{0, info.si_status};
  read_errors();
  return true;
}

}  // namespace dovetail::command
