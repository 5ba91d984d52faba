// How soon the daemon serves a signal, whatever it waits for, and how soon the next one goes on
// after `kill -9`.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "report.h"

namespace dovetail::bench {
namespace {

constexpr int kRuns = 9;
constexpr int kKept = 5;
constexpr double kPatienceSeconds = 60;
constexpr double kSignalMillisecondsMax = 100;
constexpr double kResumeMillisecondsMax = 1000;

void require(bool ok, const std::string& what) {
  if (ok) return;
  fmt::print(stderr, "bench: {}\n", what);
  std::exit(2);
}

void wait_for(const std::string& what, const std::function<bool()>& holds) {
  const double end = seconds_now() + kPatienceSeconds;
  while (!holds()) {
    require(seconds_now() < end, "gave up waiting until " + what);
    usleep(500);
  }
}

// A folder with a config, and the processes that run in it.
class House {
 public:
  explicit House(const std::string& target) : folder_(make_folder()) {
    std::ofstream(folder_ / "dovetail.toml")
        << "[store.orders]\nurl = \"sqlite:orders.db\"\n\n[store.target]\n"
        << target << "\n[[relay]]\nname = \"out\"\nfrom = \"orders\"\nto = \"target\"\n"
        << "lease = \"1h\"\n";
    run({"init"});
  }
  ~House() {
    kill_now();
    std::filesystem::remove_all(folder_);
  }
  House(const House&) = delete;
  House& operator=(const House&) = delete;

  void publish() {
    run({"publish", "--store", "orders", "--aggregate-type", "order", "--key", "17", "--type",
         "placed", "--payload", "{}"});
  }
  void start() { daemon_ = spawn({"run"}, "daemon.log"); }
  void wait_for_log(const std::string& part) {
    wait_for("the log says " + part, [&] { return log().find(part) != std::string::npos; });
  }
  void kill_now() {
    if (daemon_ <= 0) return;
    kill(daemon_, SIGKILL);
    waitpid(daemon_, nullptr, 0);
    daemon_ = 0;
  }
  // Milliseconds from the signal to the end of the process.
  double stop() {
    const double start = seconds_now();
    kill(daemon_, SIGTERM);
    int state = 0;
    require(waitpid(daemon_, &state, 0) == daemon_ && WIFEXITED(state) && WEXITSTATUS(state) == 0,
            "the daemon did not stop in good order: " + log());
    daemon_ = 0;
    return (seconds_now() - start) * 1000;
  }
  // Milliseconds from the signal until the daemon says that it has it.
  double answer() {
    const double start = seconds_now();
    kill(daemon_, SIGTERM);
    wait_for_log("may finish");
    return (seconds_now() - start) * 1000;
  }
  std::string path(const std::string& name) const { return folder_ / name; }

 private:
  static std::filesystem::path make_folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "dovetail_restart_XXXXXX";
    require(mkdtemp(pattern.data()) != nullptr, "no folder can be made for temporary files");
    return pattern;
  }
  std::string log() const {
    std::stringstream text;
    text << std::ifstream(folder_ / "daemon.log").rdbuf();
    return text.str();
  }
  pid_t spawn(std::vector<std::string> arguments, const std::string& output) const {
    const pid_t child = fork();
    require(child >= 0, "no process can be started");
    if (child > 0) return child;
    arguments.insert(arguments.begin(), DOVETAIL_BINARY);
    std::vector<char*> words;
    for (std::string& one : arguments) words.push_back(one.data());
    words.push_back(nullptr);
    const int file = open(path(output).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0 || chdir(folder_.c_str()) != 0)
      _exit(126);
    unsetenv("DOVETAIL_CONFIG");
    execv(words[0], words.data());
    _exit(127);
  }
  void run(const std::vector<std::string>& arguments) const {
    int state = 0;
    waitpid(spawn(arguments, "command.log"), &state, 0);
    require(WIFEXITED(state) && WEXITSTATUS(state) == 0, "dovetail " + arguments[0] + " failed");
  }

  const std::filesystem::path folder_;
  pid_t daemon_ = 0;
};

// Takes connections, as the kernel does for it, and never says a word.
class Silent {
 public:
  Silent() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    require(bind(socket_, any, length) == 0 && listen(socket_, 16) == 0 &&
                getsockname(socket_, any, &length) == 0,
            "no port can be opened");
    port_ = ntohs(address.sin_port);
  }
  ~Silent() { close(socket_); }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;
  std::string target() const {
    return fmt::format(
        "url = \"http://127.0.0.1:{}/events\"\n[store.target.settings]\nallow_private = true\n",
        port_);
  }

 private:
  const int socket_;
  int port_ = 0;
};

const char* const kMailbox = "url = \"sqlite:target.db\"\ntopics = [\"order.events\"]\n";

std::int64_t mailbox(const House& house) {
  sqlite3* db = nullptr;
  std::int64_t count = -1;
  if (sqlite3_open_v2(house.path("target.db").c_str(), &db, SQLITE_OPEN_READONLY, nullptr) ==
      SQLITE_OK) {
    sqlite3_busy_timeout(db, 1000);
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(db, "SELECT count(*) FROM dovetail_mailbox", -1, &statement, nullptr);
    if (sqlite3_step(statement) == SQLITE_ROW) count = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
  }
  sqlite3_close(db);
  return count;
}

double stop_when_idle() {
  House house(kMailbox);
  house.start();
  house.wait_for_log("started");
  return house.stop();
}

// Nobody listens at the receiver's port.
double stop_while_backing_off() {
  std::string target;
  {
    const Silent gone;
    target = gone.target();
  }
  House house(target);
  house.publish();
  house.start();
  house.wait_for_log("sink_lost");
  return house.stop();
}

double answer_while_a_receiver_is_silent() {
  const Silent receiver;
  House house(receiver.target());
  house.publish();
  house.start();
  house.wait_for_log("started");
  usleep(300'000);  // the request is out, and nobody answers it
  return house.answer();
}

double resume_after_kill() {
  House house(kMailbox);
  house.publish();
  house.start();
  wait_for("the first event is there", [&] { return mailbox(house) == 1; });
  house.publish();
  wait_for("the second event is there", [&] { return mailbox(house) == 2; });
  house.kill_now();
  house.publish();
  const double start = seconds_now();
  house.start();
  wait_for("the third event is there", [&] { return mailbox(house) == 3; });
  return (seconds_now() - start) * 1000;
}

int run() {
  progress("signals, and restarts after kill -9");
  const std::vector<double> times = least_disturbed(kRuns, kKept, [] {
    return std::vector<double>{stop_when_idle(), stop_while_backing_off(),
                               answer_while_a_receiver_is_silent(), resume_after_kill()};
  });
  Report report("restart");
  report.add({.name = "signal to end, idle",
              .value = times[0],
              .unit = "ms",
              .at_most = kSignalMillisecondsMax});
  report.add({.name = "signal to end, receiver away",
              .value = times[1],
              .unit = "ms",
              .at_most = kSignalMillisecondsMax});
  report.add({.name = "signal to its answer, receiver silent",
              .value = times[2],
              .unit = "ms",
              .at_most = kSignalMillisecondsMax});
  report.add({.name = "next event after kill -9, lease of 1 h",
              .value = times[3],
              .unit = "ms",
              .at_most = kResumeMillisecondsMax});
  return report.finish();
}

}  // namespace
}  // namespace dovetail::bench

int main() { return dovetail::bench::run(); }
